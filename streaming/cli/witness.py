"""`kraftwatch witness`: dials the other controllers from a controller's host, with that controller's own properties."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from rules.formatting import ms_text, visible
from rules.model.witness import Reached, WitnessRow, unknown, wrong
from streaming.cli.options import AsJson, StepTimeout
from streaming.cli.output import print_json, stdout_console

if TYPE_CHECKING:
    from rich.console import RenderableType

_EXIT_WRONG, _EXIT_UNKNOWN = 1, 3
_STYLES = {Reached.YES: "green", Reached.NO: "bold red", Reached.UNKNOWN: "yellow"}


def witness(
    properties: Annotated[
        Path, typer.Argument(help="The properties file with which the controller is started.", show_default=False)
    ],
    *,
    timeout: StepTimeout = 3.0,
    as_json: AsJson = False,
) -> None:
    """Dial the other controllers as this host's controller does, and say which it does not reach.

    Run it on the host of a controller, as the user that Kafka runs as: it uses
    that host's resolver and network, and the certificate, trust store, cipher
    suites and login of the node. The monitor's own show nothing of these. It
    also compares the clock with the leader's and the directory id with the one
    that the leader lists, and reads the free room of the disk and the files
    with which a start would end. It writes nothing into Kafka, and no secret
    is printed.

    Exit codes: 0 each other voter is reached and nothing is wrong, 1 something
    is, 2 invalid usage, 3 unknown.

      kraftwatch witness /etc/kafka/controller.properties

      kraftwatch witness /etc/kafka/controller.properties --json
    """
    # Imported here: kafka-python takes a second to import, and help and usage errors must not wait for it.
    from connectors.witness.dial import witness as dial
    from connectors.witness.witness_row import row_json

    row = dial(properties, timeout_s=timeout)
    if as_json:
        print_json(row_json(row))
    else:
        stdout_console().print(_table(row))
    raise typer.Exit(_EXIT_WRONG if wrong(row) else _EXIT_UNKNOWN if unknown(row) else 0)


def _table(row: WitnessRow) -> "RenderableType":
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for peer in row.peers:
        took = "" if peer.took_ms is None else ms_text(peer.took_ms)
        node = "unknown voter" if peer.node is None else f"controller {peer.node}"
        reached = Text(
            {Reached.YES: "reached", Reached.NO: "not reached", Reached.UNKNOWN: "unknown"}[peer.reached],
            style=_STYLES[peer.reached],
        )
        table.add_row(node, Text(visible(peer.endpoint)), reached, peer.step or "", took, Text(visible(peer.why)))
    lines = [
        *(Text(visible(f"wrong: {one}"), "bold red") for one in wrong(row)),
        *(Text(visible(f"unknown: {one}"), "yellow") for one in unknown(row)),
    ]
    login = f" ({visible(row.login)})" if row.login else ""
    tables = [table] if row.peers else []
    return Group(Text(f"seen from the host of controller {row.node}{login}", style="bold"), *tables, *lines)
