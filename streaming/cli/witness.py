"""`kraftwatch witness`: dials the controllers from the host of a node, with that node's own properties."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from connectors.errors import KraftwatchError, UsageError
from connectors.process.wall_clock import steady_ms
from connectors.settings.secret import Secret
from rules.formatting import and_join, ms_text, visible
from rules.model.identifiers import Millis
from rules.model.witness import DialledBy, Reached, WitnessRow, unknown, wrong
from streaming.cli.options import AsJson, StepTimeout
from streaming.cli.output import print_json, print_progress, stdout_console

if TYPE_CHECKING:
    from rich.console import RenderableType

    from connectors.witness.dial import Attempts

_EXIT_WRONG, _EXIT_UNKNOWN = 1, 3
_STYLES = {Reached.YES: "green", Reached.NO: "bold red", Reached.UNKNOWN: "yellow"}


def _every(value: str | None) -> float | None:
    if value is None:
        return None
    from connectors.settings.sections import parse_seconds
    from connectors.witness.witness_row import LONGEST_EVERY_MS, SHORTEST_EVERY_MS

    seconds = parse_seconds(value)
    if not SHORTEST_EVERY_MS <= 1_000 * seconds <= LONGEST_EVERY_MS:
        raise ValueError(f"invalid value '{value}': expected 10s to 3m")
    return seconds


def witness(
    properties: Annotated[
        Path, typer.Argument(help="The properties file with which the node is started.", show_default=False)
    ],
    *,
    every: Annotated[
        float | None,
        typer.Option(
            parser=_every, help="Dial again and again, so often, such as 60s, until SIGTERM.", metavar="DURATION"
        ),
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(
            help="Report what is seen to the job with this page, such as https://kraftwatch.example.com:9847, or the "
            "relay at this address; to each of several.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with the token of that page: its listen_witness_token_file.", metavar="FILE"),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="The cluster's name in the job; default: the one with its cluster id.", metavar="NAME"),
    ] = None,
    kafka: Annotated[
        Path | None,
        typer.Option(
            "--kafka",
            help="Kafka's folder on this host: its own tools dial, with the node's Java, login and config providers. "
            "1.5 s of CPU time for each voter.",
            envvar="KAFKA_HOME",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    timeout: StepTimeout = 3.0,
    as_json: AsJson = False,
) -> None:
    """Dial the controllers as this host's node does, and say which it does not reach.

    Run it on the host of a controller or a broker, as the user that Kafka runs
    as: it uses that host's resolver and network, and the certificate, trust
    store, cipher suites and login of the node. The monitor's own show nothing
    of these. It also compares the clock with the leader's and the directory id
    with the one that the leader lists, and reads the free room of the disk and
    the files with which a start would end. It writes nothing into Kafka, and no
    secret is printed.

    With --report a job observes what this host sees: its alerts and answers
    follow it. Report to each of two jobs, or of two relays, of which one writes.
    With --every the command stays until SIGTERM; what it cannot report is one
    line on stderr, and the next row follows.

    Exit codes: 0 each voter is reached and nothing is wrong, 1 something
    is, 2 invalid usage, 3 unknown or not reported.

      kraftwatch witness /etc/kafka/controller.properties

      kraftwatch witness /etc/kafka/controller.properties --kafka /opt/kafka

      kraftwatch witness /etc/kafka/controller.properties --every 60s
          --report https://kraftwatch.example.com:9847 --token-file TOKEN
    """
    # Imported here: kafka-python takes a second to import, and help and usage errors must not wait for it.
    from connectors.process.signals import STOP, SignalFlag
    from connectors.witness.dial import Attempts

    attempts, send = Attempts(), _Reporting.of(report or (), token_file, cluster)
    if every is None:
        row = _dialled(properties, timeout, attempts, kafka)
        _print(row, as_json=as_json)
        problems = [] if send is None else send.problems(row)
        if send is not None and len(problems) == len(send.urls):
            raise KraftwatchError("; ".join(problems))
        for problem in problems:
            print_progress(problem)
        raise typer.Exit(_EXIT_WRONG if wrong(row) else _EXIT_UNKNOWN if unknown(row) else 0)
    with SignalFlag(*STOP) as stop:
        said: str | None = None
        while not stop.is_set():
            began_ms = steady_ms()
            try:
                row = replace(_dialled(properties, timeout, attempts, kafka), every_ms=round(1_000 * every))
                problem = "" if send is None else "; ".join(send.problems(row))
                if send is None:
                    _print(row, as_json=as_json)
            except UsageError as unreadable:
                if said is None:
                    raise
                problem = str(unreadable)
            # What stays the same is said once.
            now = problem or ("" if send is None else f"reported to {and_join(send.urls)} every {every:g} s")
            if now not in ("", said):
                print_progress(now)
            said = now
            stop.wait(max(0.0, every - (steady_ms() - began_ms) / 1_000))


def _dialled(properties: Path, timeout_s: float, attempts: "Attempts", kafka: Path | None) -> WitnessRow:
    from connectors.witness.dial import witness as dial

    began_ms = steady_ms()
    row = dial(properties, timeout_s=timeout_s, attempts=attempts, kafka=kafka)
    return replace(row, took_ms=Millis(steady_ms() - began_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reporting:
    """The jobs and relays to which rows are reported."""

    urls: tuple[str, ...]
    token: Secret | None
    cluster: str | None

    @classmethod
    def of(cls, urls: Iterable[str], token_file: Path | None, cluster: str | None) -> "_Reporting | None":
        """Returns those that the options name; None without one. Raises UsageError for what cannot be."""
        from connectors.settings.sections import url_problem

        once = tuple(dict.fromkeys(urls))
        if not once:
            if token_file is not None or cluster is not None:
                raise UsageError("--token-file and --cluster belong to --report URL")
            return None
        if problem := next(filter(None, map(url_problem, once)), None):
            raise UsageError(f"--report: {problem}")
        token = None if token_file is None else Secret(file=token_file)
        if token is not None:
            token.check("--token-file")
        return cls(urls=once, token=token, cluster=cluster)

    def problems(self, row: WitnessRow) -> list[str]:
        """Reports a row to each; returns why some do not take it."""
        from connectors.witness.report import report_problem

        cluster = self.cluster or row.cluster_id
        if cluster is None:
            why = f"meta.properties of node {row.node} has no cluster id: give --cluster NAME"
            return [f"--report {url}: {why}" for url in self.urls]
        whys = ((url, report_problem(row, url, cluster, self.token)) for url in self.urls)
        return [f"--report {url}: {why}" for url, why in whys if why is not None]


def _print(row: WitnessRow, *, as_json: bool) -> None:
    from connectors.witness.witness_row import row_json

    if as_json:
        print_json(row_json(row))
    else:
        stdout_console().print(_table(row))


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
    by = ", dialled by Kafka's tools" if row.dialled_by is DialledBy.KAFKA else ""
    return Group(Text(f"seen from the host of node {row.node}{login}{by}", style="bold"), *tables, *lines)
