"""The command line: one command, its verbs in modules of their own."""

import contextlib
import io
import os
import sys
from importlib import metadata
from typing import Annotated

import typer

from connectors.errors import KraftwatchError, UsageError
from streaming.cli import (
    audit,
    check,
    config,
    decode,
    demo,
    doctor,
    explain,
    lab,
    quarantine,
    report,
    rescue,
    run,
    silence,
    status,
)
from streaming.cli.help_format import dress
from streaming.cli.output import say

app = typer.Typer(
    name="kraftwatch",
    help="""Knows, before anyone else, whether a Kafka cluster's brain is well.

It reads each cluster's metadata log from the controllers, polls
DescribeQuorum, probes the voters' endpoints, and says what is wrong, why,
and the exact command that mends it. It never writes to a cluster.

[bold]First steps[/bold]

  kraftwatch demo     a real quorum hurt and healed before your eyes

  kraftwatch status --cluster prod=c1:9093,c2:9093,c3:9093

  kraftwatch run --cluster prod=c1:9093,c2:9093,c3:9093
""",
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_FAILED = {"check": 3, "audit": 3}
"""The exit code of a verb that the machine let down, else 1, which is an answer of these."""


def _say_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it so
    if asked:
        sys.stdout.write(f"kraftwatch {metadata.version('kraftwatch')}\n")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which this is.")
    ] = None,
) -> None: ...


_TRY, _ON_CALL = "Try it on this machine", "One look, for whoever is on call"
_WATCH, _AFTER = "Watch for months", "What was recorded"
app.command("demo", rich_help_panel=_TRY)(demo.demo)
app.add_typer(lab.app, name="lab", rich_help_panel=_TRY)
app.command("status", rich_help_panel=_ON_CALL)(status.status)
app.command("replication", rich_help_panel=_ON_CALL)(status.replication)
app.command("partitions", rich_help_panel=_ON_CALL)(status.partitions)
app.command("check", rich_help_panel=_ON_CALL)(check.check)
app.command("safe-to-restart", rich_help_panel=_ON_CALL)(check.safe_to_restart)
app.command("explain", rich_help_panel=_ON_CALL)(explain.explain)
app.add_typer(rescue.app, name="rescue", rich_help_panel=_ON_CALL)
app.command("run", rich_help_panel=_WATCH)(run.run)
app.command("doctor", rich_help_panel=_WATCH)(doctor.doctor)
app.add_typer(config.app, name="config", rich_help_panel=_WATCH)
app.add_typer(silence.app, name="silence", rich_help_panel=_WATCH)
app.command("report", rich_help_panel=_AFTER)(report.report)
app.command("audit", rich_help_panel=_AFTER)(audit.audit)
app.add_typer(quarantine.app, name="quarantine", rich_help_panel=_AFTER)
app.command("decode", rich_help_panel=_AFTER)(decode.decode)
dress(app)


def main() -> None:
    """Entry point: a mistake is one sentence on stderr and exit code 2, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal of another encoding than UTF-8 misses a character, and not the answer.
        sys.stdout.reconfigure(errors="replace")
    failed = _FAILED.get(next(iter(sys.argv[1:]), ""), 1)
    try:
        try:
            app()
        finally:
            # Written here and not when Python exits, where an error of the disk could not be reported any more.
            sys.stdout.flush()
    except UsageError as problem:
        say(problem)
        sys.exit(2)
    except KraftwatchError as problem:
        say(problem)
        sys.exit(failed)
    except BrokenPipeError:
        _discard_output()
        sys.exit(failed)
    except OSError as problem:
        # What the machine refuses (a full disk, a read-only folder) is not a fault of this program: no traceback.
        _discard_output()
        place = "" if problem.filename is None else f"{problem.filename}: "
        say(f"{place}{(problem.strerror or str(problem)).lower()}")
        sys.exit(failed)


def _discard_output() -> None:
    """Sends what stdout still buffers to /dev/null, so that Python's own flush at exit cannot fail as well."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
