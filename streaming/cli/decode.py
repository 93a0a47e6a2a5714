"""`kraftwatch decode`: every record of one file of the metadata log, for people and programs."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.color import ColorSystem
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.style import Style

from connectors.errors import UsageError
from connectors.metadata.dump_log import Gap, Reached, Transcribed, begins_as_log, transcript
from connectors.metadata.record_schemas import kafkas

SUFFIXES = (".log", ".checkpoint")
PATIENCE_S = 2.0
"""What takes no longer than this needs no progress bar."""
_UTC_MAX_MS = 253_402_300_799_999
"""The last millisecond that a date has a name for."""
_PLAIN = Style()
_FAINT = Style(dim=True)
_OFFSET = Style(color="cyan")
_TYPE = Style(bold=True)
_UNREAD = Style(color="yellow")


def decode(
    path: Annotated[
        Path, typer.Argument(help="A .log segment or .checkpoint snapshot of __cluster_metadata-0.", metavar="FILE")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a record on stdout.")] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Show credentials and the values of configurations.")
    ] = False,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="Read every record as this Kafka does, 3.9.2 for one; else as the newest Kafka that can.",
            metavar="VERSION",
        ),
    ] = None,
) -> None:
    """Print every record of a metadata log's segment or snapshot, as kafka-dump-log names them.

    No cluster is asked. Credentials and configuration values are blanked unless
    --show-secrets says otherwise. Records that no known Kafka could have
    written are carried as unknown, with their length.

    Exit code 0 if all of the file was read (records of unknown type or version
    included), 1 if something is damaged, torn or compressed (one line each on
    stderr), 2 if it is no such file.

      kraftwatch decode 00000000000000000000.log --json
    """
    if kafka is not None and kafka not in kafkas():
        raise UsageError(f"--kafka {kafka}: known are {', '.join(kafkas())}")
    segment = _content(path)
    complaints = Console(stderr=True, highlight=False, soft_wrap=True)
    whole = True
    try:
        write = _json_line if as_json else _line(Console(highlight=False))
        with _progress(path, len(segment), complaints) as advance:
            for entry in transcript(segment, kafka=kafka, secrets=show_secrets):
                match entry:
                    case Transcribed():
                        write(entry)
                        if entry.damaged:
                            whole = False
                            complaints.print(f"{path}: offset {entry.offset}: {entry.reason}", markup=False)
                    case Gap():
                        whole = False
                        complaints.print(f"{path}: {_told(entry)}", markup=False)
                    case Reached(position=position):
                        advance(position)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the lines has seen enough; what Python flushes at its end must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(0 if whole else 1)


def _content(path: Path) -> bytes:
    """The bytes of a file that is a log.

    Raises:
        UsageError: it cannot be read, or it is none.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            # A pipe or a device may never end.
            raise UsageError(f"{path} is no file: name a .log or .checkpoint file of __cluster_metadata-0")
        segment = path.read_bytes()
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder: name one of the .log or .checkpoint files in it") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if not begins_as_log(segment) and not (path.suffix in SUFFIXES and not segment.strip(b"\0")):
        raise UsageError(f"{path} is no log: name a .log or .checkpoint file of __cluster_metadata-0")
    first = next((entry for entry in transcript(segment) if isinstance(entry, Transcribed)), None)
    if first is not None and first.damaged and first.type is None:
        raise UsageError(f"{path} is the log of another topic: name a .log or .checkpoint file of __cluster_metadata-0")
    return segment


def _json_line(record: Transcribed) -> None:
    """One line; `data` of what is unknown or damaged is null, and its length and the reason stand behind it."""
    line = {
        "offset": record.offset,
        "epoch": record.epoch,
        "timestamp": record.timestamp,
        "type": record.type,
        "version": record.version,
        "data": record.data,
    }
    if record.data is None:
        number = {} if record.number is None else {"number": record.number}
        line |= {**number, "length": record.length, "reason": record.reason}
    sys.stdout.write(json.dumps(line, separators=(",", ":")) + "\n")


def _line(console: Console) -> Callable[[Transcribed], None]:
    """A writer of lines that people read; says first what stands where."""
    colors = ColorSystem.STANDARD if console.is_terminal and not console.no_color else None

    def put(offset: object, epoch: object, when: str, type_: str, version: object, rest: str, style: Style) -> None:
        parts = (
            _OFFSET.render(f"{offset:>10}", color_system=colors),
            _PLAIN.render(f"{epoch:>6}", color_system=colors),
            _FAINT.render(f"{when:<24}", color_system=colors),
            _TYPE.render(f"{type_:<34}", color_system=colors),
            _FAINT.render(f"{version:>2}", color_system=colors),
            style.render(rest, color_system=colors),
        )
        sys.stdout.write("  ".join(parts).rstrip() + "\n")

    def write(record: Transcribed) -> None:
        type_ = record.type or "?"
        if record.number is not None:
            type_ = f"{type_} {record.number}"
        version = "?" if record.version is None else record.version
        if record.data is None:
            rest, style = f"{record.reason} ({record.length} bytes)", _UNREAD
        else:
            # JSON keeps control characters that somebody put into a name away from the terminal.
            fields = (f"{name}={json.dumps(value)}" for name, value in record.data.items() if name != "version")
            rest, style = " ".join(fields), _PLAIN
        put(record.offset, record.epoch, _time(record.timestamp), type_, version, rest, style)

    put("offset", "epoch", "time (UTC)", "type", "v", "data", _PLAIN)
    return write


def _time(milliseconds: int) -> str:
    if not 0 <= milliseconds <= _UTC_MAX_MS:
        return str(milliseconds)
    when = datetime.fromtimestamp(milliseconds // 1000, UTC)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def _told(gap: Gap) -> str:
    offset = "" if gap.offset is None or not gap.size else f"offset {gap.offset}, "
    passed_over = f" ({gap.size} bytes passed over)" if gap.size else ""
    return f"{offset}position {gap.position}: {gap.reason}{passed_over}"


@contextmanager
def _progress(path: Path, size: int, console: Console) -> Iterator[Callable[[int], None]]:
    """A bar on stderr for what takes long, unless the lines themselves run down the same terminal."""
    if not console.is_terminal or sys.stdout.isatty():
        yield lambda position: None
        return
    began = time.monotonic()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(f"decoding {path.name}", total=size, visible=False)

        def advance(position: int) -> None:
            if position - progress.tasks[task].completed < size / 200:
                return
            progress.update(task, completed=position, visible=time.monotonic() - began > PATIENCE_S)

        yield advance
