"""`kraftwatch check` and `safe-to-restart`: one look, one answer, and an exit code that scripts can rely on."""

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from streaming.cli import options


@options.options(options.Offline)
def check(wanted: options.Offline) -> None:
    """Look once and judge by all rules; for scripts, probes and cron.

    Holds do not apply in one look: findings are what stands now. Unknown is not
    healthy: when a rule cannot tell, or no leader answers and nobody says there
    is none, the answer is 3 unless something worse was found.

    With --log-dir the rules judge what one controller's disk tells; those that
    need an answer cannot tell.

    Exit codes: 0 healthy, 1 warning, 2 critical (or something given cannot be),
    3 cannot tell; of several clusters the worst: critical, warning, cannot
    tell.

      kraftwatch check --cluster prod=c1:9093,c2:9093,c3:9093

      kraftwatch check --config kraftwatch.yaml --only prod --json
    """
    # Kafka's client takes a second to import: help and mistakes should not wait for it.
    from streaming.cli import cluster_query
    from streaming.status import check_output
    from streaming.status.health import health, worst

    seen = cluster_query.once(wanted)
    for one in seen:
        if wanted.as_json:
            options.print_json(check_output.check_json(one))
        else:
            _print(check_output.check_text(one))
    raise typer.Exit(worst(health(one) for one in seen).exit_code)


@options.options(options.Asked)
def safe_to_restart(
    wanted: options.Asked,
    node: Annotated[int, typer.Argument(help="The controller's node.id.", metavar="NODE", show_default=False)],
) -> None:
    """Whether this controller may be restarted now, and if not, why.

    Safe means: without it a majority of caught-up voters remains that could
    elect a leader; every recorded endpoint leads to its voter; no other
    controller is down; no disk replacement or change of voters is under way.
    What cannot be told is not safe. Use it in a rolling restart, before each
    node.

    Exit codes: 0 safe, 2 not safe (or something given cannot be).

      kraftwatch safe-to-restart 2 --cluster prod=c1:9093,c2:9093,c3:9093
    """
    from streaming.cli import cluster_query
    from streaming.status import check_output

    seen = cluster_query.the_one(wanted)
    answer = check_output.evaluate_restart(seen, node)
    if wanted.as_json:
        options.print_json(check_output.restart_json(seen, answer))
    else:
        _print(check_output.restart_text(seen, answer))
    raise typer.Exit(0 if answer.safe else 2)


def _print(text: Text) -> None:
    Console(highlight=False).print(text, soft_wrap=True)
