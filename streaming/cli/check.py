"""`kraftwatch check` and `safe-to-restart`: one query, one result, and an exit code for scripts."""

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from streaming.cli.options import ClusterOptions, OfflineOptions, with_options
from streaming.cli.output import print_json


@with_options(OfflineOptions)
def check(opts: OfflineOptions) -> None:
    """Query once and evaluate all rules; for scripts, probes and cron.

    Holds do not apply: every condition that is present now is a finding.
    Unknown is not healthy: the exit code is 3 if the result of a rule is
    unknown, or if no leader answers and no controller reports that there is
    none, unless a warning or critical finding exists.

    With --log-dir, the rules are evaluated on the log of one controller's
    disk. Rules that need an answer from the quorum are then unknown.

    Exit codes: 0 healthy, 1 warning, 2 critical (or invalid usage), 3 unknown.
    For several clusters the worst, in the order critical, warning, unknown.

      kraftwatch check --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch check --config kraftwatch.yaml --only prod --json
    """
    # Imported here: kafka-python takes a second to import.
    from streaming.cli import cluster_query
    from streaming.status import check_output
    from streaming.status.build_status import cluster_status
    from streaming.status.health import health, worst

    states = cluster_query.query_once(opts)
    for one in states:
        if opts.as_json:
            print_json(check_output.check_json(one))
        else:
            _print(check_output.check_text(one))
    raise typer.Exit(worst(health(cluster_status(one)) for one in states).exit_code)


@with_options(ClusterOptions)
def safe_to_restart(
    opts: ClusterOptions,
    node: Annotated[int, typer.Argument(help="The controller's node.id.", metavar="NODE", show_default=False)],
) -> None:
    """Check whether a controller may be restarted now; print the reasons if not.

    Safe means: without this controller, a majority of caught-up voters remains
    that can elect a leader; every recorded endpoint resolves to its voter; no
    other controller is down; no disk replacement and no voter change is in
    progress. Unknown is not safe. Run it in a rolling restart before each node.

    Exit codes: 0 safe, 2 not safe (or invalid usage).

      kraftwatch safe-to-restart 2 --cluster prod=c1:9093,c2:9093,c3:9093
    """
    from streaming.cli import cluster_query
    from streaming.status import check_output

    state = cluster_query.query_one_cluster(opts)
    answer = check_output.evaluate_restart(state, node)
    if opts.as_json:
        print_json(check_output.restart_json(state, answer))
    else:
        _print(check_output.restart_text(state, answer))
    raise typer.Exit(0 if answer.safe else 2)


def _print(text: Text) -> None:
    Console(highlight=False).print(text, soft_wrap=True)
