"""The command `kraftwatch`."""

import contextlib
import gc
import io
import os
import signal
import sys
from typing import Annotated

import typer

from connectors.errors import KraftwatchError, UsageError
from streaming.cli.output import print_message
from streaming.cli.verbs import Verbs

app = typer.Typer(
    name="kraftwatch",
    cls=Verbs,
    help="""Monitors the KRaft metadata quorum of Apache Kafka clusters.

It detects what will prevent the next leader election or metadata commit,
explains why, and prints the commands that fix it. To do so it reads the
metadata log, polls DescribeQuorum and probes the voters' endpoints. Only
[cyan]rescue apply[/cyan] changes a node, a stopped one.

[bold]First steps[/bold]

1. See it work on this machine; it needs only Java:

  kraftwatch demo

2. Show the status of your quorum; give the controllers' listeners:

  kraftwatch status --cluster prod=c1:9093,c2:9093,c3:9093

3. Check connections, permissions and this machine:

  kraftwatch doctor --cluster prod=c1:9093,c2:9093,c3:9093

4. Monitor it; add --listen 127.0.0.1:9847 for a page in the browser:

  kraftwatch run --cluster prod=c1:9093,c2:9093,c3:9093

Each verb has --help. `kraftwatch explain` lists the rules and explains terms.
""",
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_FAILURE_IS_3 = {"check", "audit", "witness"}
"""Verbs whose exit code for a failure of this machine is 3, because 1 is one of their results."""


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer passes the value by position
    if requested:
        from importlib import metadata

        sys.stdout.write(f"kraftwatch {metadata.version('kraftwatch')}\n")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool | None, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = None,
) -> None: ...


def main() -> None:
    """Runs a verb. A usage error is one sentence on stderr and exit code 2, never a traceback."""
    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without UTF-8 gets `?` for a character that it cannot show, instead of an error.
        sys.stdout.reconfigure(errors="replace")
    # A large log becomes millions of objects that live to the end: they are rarely looked through for garbage.
    gc.set_threshold(50_000, 20, 50)
    # SIGTERM ends a command as ^C does, so that an unpacked bundle is deleted. A job installs its own handler.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    failure_code = 3 if _FAILURE_IS_3.intersection(sys.argv[1:3]) else 1
    # pydantic would read the metadata of every installed package to look for its plugins: there are none.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        try:
            app(prog_name="kraftwatch")
        finally:
            # Flushed here: an error at Python's own flush at exit could not be reported.
            sys.stdout.flush()
    except UsageError as problem:
        print_message(problem)
        sys.exit(2)
    except KraftwatchError as problem:
        print_message(problem)
        sys.exit(failure_code)
    except BrokenPipeError:
        _discard_output()
        sys.exit(failure_code)
    except OSError as problem:
        # An error of this machine (a full disk, a read-only folder) is not a defect of kraftwatch: no traceback.
        _discard_output()
        file = "" if problem.filename is None else f"{problem.filename}: "
        print_message(f"{file}{(problem.strerror or str(problem)).lower()}")
        sys.exit(failure_code)


def _open_closed_streams() -> None:
    """Opens /dev/null as each standard stream that the caller has closed (`>&-`), which Python sets to None.

    Its number would be that of the next file that is opened, to which child processes would then write.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(null, "w" if number else "r"))


def _discard_output() -> None:
    """Redirects stdout to /dev/null, so that Python's own flush at exit does not fail too."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
