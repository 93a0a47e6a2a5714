"""`kraftwatch data decode`: prints every record of one file of the metadata log, for people and programs."""

import json
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console

from connectors.errors import UsageError, os_errors
from connectors.logdir.log_byte_ranges import require_metadata_log, require_regular_file
from connectors.metadata.dump_log import (
    DumpedRecord,
    DumpEntry,
    DumpGap,
    LogSummary,
    RecordText,
    dump_records,
    dump_texts,
)
from connectors.metadata.record_rendering import FieldStyle
from connectors.metadata.record_schemas import kafka_versions
from rules.formatting import LATEST_MS, iso
from rules.model.identifiers import Millis

_encode_json = json.JSONEncoder(separators=(",", ":")).encode
_encode_field = json.JSONEncoder().encode
_COLUMNS = "%10s  %6s  %-24s  %-34s  %2s  %s"
EntryWriter: TypeAlias = Callable[[DumpedRecord | RecordText | DumpGap], object]
"""Prints one record; a gap is not printed."""


def decode(
    path: Annotated[
        Path, typer.Argument(help="A .log segment or .checkpoint snapshot of __cluster_metadata-0.", metavar="FILE")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON per record to stdout.")] = False,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Print credentials and configuration values.")
    ] = False,
    summarize: Annotated[
        bool,
        typer.Option(
            "--summary",
            help="Print counts by record type and sums over the resulting partitions instead of the records.",
        ),
    ] = False,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="Decode with the record schemas of this Kafka version, such as 3.9.2; default: for each record the "
            "newest schema that fits.",
            metavar="VERSION",
        ),
    ] = None,
) -> None:
    """Print every record of a segment or snapshot of the metadata log.

    Record and field names are those of kafka-dump-log. No cluster is queried.
    Credentials and configuration values are blanked without --show-secrets.
    Records of an unknown type or version are printed with their length.

    Exit codes: 0 the whole file was read (unknown records included), 1 a part
    is damaged, truncated or compressed (one line each on stderr), or with
    --summary a record that Kafka cannot replay, 2 it is not a file of a metadata
    log.

    --summary applies the file's records up to its first gap, those of aborted
    transactions excluded, and prints sums over the resulting partitions. A log
    that begins after a snapshot lacks the partitions that were created before.

      kraftwatch data decode 00000000000000000000.log --json
      kraftwatch data decode 00000000000000024001-0000000042.checkpoint --summary
    """
    if kafka is not None and kafka not in kafka_versions():
        raise UsageError(f"--kafka {kafka}: unknown version; known versions: {', '.join(kafka_versions())}")
    if kafka is not None and summarize:
        raise UsageError("--kafka and --summary cannot be combined: omit --kafka")
    segment = _read_log(path)
    if summarize:
        summary = LogSummary()
        complete = _write_entries(path, summary.count(segment), lambda _: None)
        replayable = _print_summary(path, segment, summary, as_json=as_json)
        raise typer.Exit(0 if complete and replayable else 1)
    # With the schemas of any Kafka, the frequent records are texts.
    style: FieldStyle = "json" if as_json else "text"
    entries: Iterator[DumpEntry | RecordText] = (
        dump_texts(segment, style=style, secrets=show_secrets)
        if kafka is None
        else dump_records(segment, kafka=kafka, secrets=show_secrets)
    )
    complete = _write_entries(path, entries, _record_writer(as_json=as_json))
    raise typer.Exit(0 if complete else 1)


def _write_entries(path: Path, entries: Iterator[DumpEntry | RecordText], write: EntryWriter) -> bool:
    """Writes every entry, and each problem to stderr; returns whether there was none."""
    stderr = Console(stderr=True, highlight=False, soft_wrap=True)
    complete = True
    for entry in entries:
        write(entry)
        match entry:
            case RecordText():
                continue
            case DumpedRecord(damaged=True):
                problem = f"offset {entry.offset}: {entry.reason}"
            case DumpGap():
                problem = _gap_text(entry)
            case _:
                continue
        complete = False
        stderr.print(f"{path}: {problem}", markup=False)
    return complete


def _read_log(path: Path) -> bytes:
    with os_errors(f"cannot read {path}"):
        if path.is_dir():
            raise UsageError(f"{path} is a folder: name one of the .log or .checkpoint files in it")
        if path.exists():
            require_regular_file(path)
        segment = path.read_bytes()
    require_metadata_log(path, segment)
    return segment


def _record_writer(*, as_json: bool) -> EntryWriter:
    """Returns the function that prints one record; for people, prints the column headings first."""
    write = sys.stdout.write
    if not as_json:
        write(_COLUMNS % ("offset", "epoch", "time (UTC)", "type", "v", "data") + "\n")
    line = _json_line if as_json else _text_line
    return lambda entry: None if isinstance(entry, DumpGap) else write(line(entry))


def _json_line(record: DumpedRecord | RecordText) -> str:
    """Returns one line of JSON; an unknown or damaged record has null `data`, its length and the reason."""
    if isinstance(record, RecordText):
        # Numbers, and names without characters that JSON escapes.
        return (
            f'{{"offset":{record.offset},"epoch":{record.epoch},"timestamp":{record.timestamp},'
            f'"type":"{record.type}","version":{record.version},"data":{record.data}}}\n'
        )
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
    return _encode_json(line) + "\n"


def _text_line(record: DumpedRecord | RecordText) -> str:
    when = _time(record.timestamp)
    if isinstance(record, RecordText):
        offset, epoch, _, name, number, fields = record
        return (_COLUMNS % (offset, epoch, when, name, number, fields)).rstrip() + "\n"
    type_ = record.type or "?"
    if record.number is not None:
        type_ = f"{type_} {record.number}"
    version = "?" if record.version is None else record.version
    if record.data is None:
        rest = f"{record.reason} ({record.length} bytes)"
    else:
        # JSON escapes control characters in names, which a terminal would interpret.
        texts = (f"{name}={_encode_field(value)}" for name, value in record.data.items() if name != "version")
        rest = " ".join(texts)
    return (_COLUMNS % (record.offset, record.epoch, when, type_, version, rest)).rstrip() + "\n"


@lru_cache(maxsize=1)
def _time(milliseconds: int) -> str:
    return iso(Millis(milliseconds)) if 0 <= milliseconds <= LATEST_MS else str(milliseconds)


def _gap_text(gap: DumpGap) -> str:
    offset = "" if gap.offset is None or not gap.size else f"offset {gap.offset}, "
    skipped = f" ({gap.size} bytes skipped)" if gap.size else ""
    return f"{offset}position {gap.position}: {gap.reason}{skipped}"


def _print_summary(path: Path, segment: bytes, summary: LogSummary, *, as_json: bool) -> bool:
    """Prints the summary of a file, as text or as one JSON object; returns whether Kafka can replay what is applied."""
    # Imported here, because its imports would delay the command's completion and help.
    from streaming.replay.partition_sums import apply_file, sums_of

    applied = apply_file(segment, snapshot=summary.is_snapshot)
    sums, ends = sums_of(applied.log), applied.ends_before
    refused = [str(record) for record in applied.log.image.unreplayable]
    if refused:
        stderr = Console(stderr=True, highlight=False, soft_wrap=True)
        stderr.print(f"{path}: Kafka cannot replay {refused[0]}: a controller that starts from here ends", markup=False)
    counts = {
        "file": path.name,
        "bytes": len(segment),
        "data_records": summary.records.total(),
        "control_records": summary.control_records.total(),
        "undecodable": summary.undecodable,
        "first_offset": summary.first_offset,
        "last_offset": summary.last_offset,
        "last_epoch": summary.last_epoch,
    }
    by_type = dict(sorted(summary.records.items()))
    control_by_type = dict(sorted(summary.control_records.items()))
    if as_json:
        document = counts | {"by_type": by_type, "control_by_type": control_by_type, "state_ends_before": ends}
        sys.stdout.write(json.dumps(document | {"unreplayable": refused} | sums) + "\n")
        return not refused
    for key, value in counts.items():
        sys.stdout.write(f"{key.replace('_', ' '):<34}  {'-' if value is None else value}\n")
    of = "" if ends is None else f" of the records before offset {ends}: what follows is not applied"
    resulting = f"resulting partitions{of}"
    for title, numbers in (("records", by_type), ("control records", control_by_type), (resulting, sums)):
        sys.stdout.write(f"\n{title}\n")
        for key, number in numbers.items():
            sys.stdout.write(f"  {key if key.isupper() else key.replace('_', ' '):<32}  {number:>12}\n")
    return not refused
