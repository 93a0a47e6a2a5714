"""Repair of a damaged checkpoint: finds what is damaged, says what it will do, and does it. Queries no cluster.

Spark's state is never written here. If the state after an older batch is intact, the batches after it are taken away,
and Spark repeats them: the journal has their rows, and the ledger the alerts that were sent. Otherwise Spark starts
with a new state: from the journal if that is complete, else from each cluster's log, which the gatherer then reads
again. The alerts that are firing in the ledger keep firing in the new state (`streaming.pipeline.early_alerts`).

Whatever is replaced is kept under another name.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.errors import UsageError
from connectors.store.durable_file import replace_file
from connectors.store.journal_file import (
    ReadableJournal,
    journal_damage,
    journal_file,
    readable_journal,
    replace_journal,
)
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.sqlite_file import set_aside
from connectors.store.tables import sqlite_database
from rules.formatting import plural
from streaming.job.intact_state import OpenSpark, UnreadableStateError, new_metadata, newest_intact, read_states
from streaming.pipeline.checkpoint import Checkpoint, DamagedIdentityError
from streaming.pipeline.checkpoint_source import KAFKA, checkpoint_source, record_source
from streaming.pipeline.spark_files import SparkFiles

DAMAGED_SUFFIX = ".damaged-"
_STILL_FIRING = (
    "Firing alerts are in the ledger: they are not sent again, and they resolve when their condition is over."
)
_STATE_SUFFIXES = (".changelog", ".zip", ".delta", ".snapshot")
"""Of a version of the state, in Spark's two kinds of state stores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairStep:
    """One finding and what repairs it."""

    found: str
    """Names the file and what is wrong."""
    repair: str
    """What is done, as a sentence."""
    apply: Callable[[], None]


def plan_repair(checkpoint: Checkpoint, open_spark: OpenSpark) -> Iterator[RepairStep]:
    """Yields what is damaged, in the order of repair. A step that depends on a former one sees its plan only.

    Args:
        checkpoint: locked by this process.
        open_spark: is called only if Spark's state must be read.

    Raises:
        UsageError: Spark does not start.
    """
    if checkpoint_source(checkpoint) is None:
        raise UsageError(f"checkpoint {checkpoint.folder} has neither journal/ nor spark/: there is nothing to repair")
    yield from _identity(checkpoint)
    # None also if not even the positions of its rows can be read.
    journal = readable_journal(checkpoint.journal) if JournalReader(checkpoint.journal).created else None
    yield from _journal(checkpoint, journal)
    damage = checkpoint.database_damage()
    yield from _spark(checkpoint, journal, open_spark) if damage is None else _database(checkpoint, journal, damage)


def _identity(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    try:
        checkpoint.cluster_ids()
    except DamagedIdentityError:
        path = checkpoint.identity
        yield RepairStep(
            found=f"{path} cannot be read",
            repair="It is moved away; the next start asks each cluster for its id.",
            apply=lambda: _move_away(path),
        )


def _journal(checkpoint: Checkpoint, readable: ReadableJournal | None) -> Iterator[RepairStep]:
    damage, path = journal_damage(checkpoint.journal), journal_file(checkpoint.journal)
    if damage is None:
        return
    planned = checkpoint.spark_files.newest_planned_end()
    if readable is None:
        kept = "None of its rows can be read: a new one begins, and the numbers of the rows continue."
    else:
        rows = plural(readable.end - readable.first, "row")
        kept = f"The newest rows that can be read without a gap, {rows}, are copied to a new one."
    yield RepairStep(
        found=f"{path} is damaged: {damage}",
        repair=kept,
        apply=lambda: replace_journal(
            checkpoint.journal,
            readable,
            kept=_free_name(path),
            journal_id=None if planned is None else planned.journal_id,
            at_least=0 if planned is None else planned.sequence,
        ),
    )


def _spark(checkpoint: Checkpoint, journal: ReadableJournal | None, open_spark: OpenSpark) -> Iterator[RepairStep]:
    files = checkpoint.spark_files
    if (source := checkpoint_source(checkpoint)) is not None and source.kind == KAFKA:
        yield from _spark_of_topic(checkpoint, open_spark)
        return
    if not files.offsets and not files.commits:
        if not _rebuildable(checkpoint, journal):
            yield from _logs_read_again(
                checkpoint, f"{checkpoint.spark} has no offsets, and journal/ lacks its first rows"
            )
        return
    damaged = [str(each) for each in files.damaged()]
    if any(each.path.name == "metadata" for each in files.damaged()):
        yield RepairStep(
            found=damaged.pop(0),
            repair="It is written again: it holds only a random id.",
            apply=lambda: _write_metadata(checkpoint),
        )
    newest = files.commits[-1] if files.commits else None
    intact, problem = newest_intact(checkpoint, journal, open_spark)
    if intact is not None and intact == newest and not damaged:
        return
    found = "; ".join(damaged) or f"Spark cannot read its state: {problem}"
    if intact is not None:
        yield RepairStep(
            found=found,
            repair=f"Spark continues after batch {intact}, whose state is intact: the files of later batches are moved "
            f"away, and their rows are evaluated again. The ledger has their alerts: none is sent twice.",
            apply=lambda: _continue_after(checkpoint, intact),
        )
    elif _rebuildable(checkpoint, journal):
        yield _built_again(checkpoint, f"{found}; the state of no batch is intact", "the journal, which is complete")
    else:
        yield from _logs_read_again(checkpoint, f"{found}; the state of no batch is intact")


def _spark_of_topic(checkpoint: Checkpoint, open_spark: OpenSpark) -> Iterator[RepairStep]:
    """The rows are in the relay's topic, from the newest baseline on: a new state needs no older batch."""
    files = checkpoint.spark_files
    found = "; ".join(str(each) for each in files.damaged())
    if not found and files.has_state:
        try:
            read_states(open_spark(), checkpoint.spark)
        except UnreadableStateError as error:
            found = f"Spark cannot read its state: {error}"
    if found:
        yield _built_again(checkpoint, found, "the relay's topic")


def _built_again(checkpoint: Checkpoint, found: str, rows: str) -> RepairStep:
    return RepairStep(
        found=found,
        repair=f"spark/ is moved away; the next start builds the state again from {rows}. {_STILL_FIRING}",
        apply=lambda: _move_away(checkpoint.spark),
    )


def _rebuildable(checkpoint: Checkpoint, journal: ReadableJournal | None) -> bool:
    """Whether the journal holds everything from which a new state is built, and all of it can be read."""
    if journal is None:
        # A new job, unless the journal is damaged as a whole.
        return not JournalReader(checkpoint.journal).created
    return journal.complete


def _logs_read_again(checkpoint: Checkpoint, found: str) -> Iterator[RepairStep]:
    yield RepairStep(
        found=found,
        repair="Spark starts with a new state, and the gatherer reads each cluster's metadata log again. "
        f"{_STILL_FIRING} Rows that were recorded but not evaluated are not evaluated.",
        apply=lambda: _read_logs_again(checkpoint),
    )


def _read_logs_again(checkpoint: Checkpoint) -> None:
    with JournalWriter(checkpoint.journal) as writer:
        writer.read_logs_again()
    # Last: a journal that cannot be written must not cost the state.
    if checkpoint.spark.exists():
        _move_away(checkpoint.spark)


def _continue_after(checkpoint: Checkpoint, batch: int) -> None:
    """Moves the files of all batches after `batch` away, in an order that an interruption does not make worse."""
    end = checkpoint.spark_files.planned_end(batch)
    assert end is not None, "the batch was chosen because its offset is intact"
    with JournalWriter(checkpoint.journal) as writer:
        writer.lower_committed(end.sequence)
    kept = _free_name(checkpoint.spark)
    for path in files_after(checkpoint.spark_files, batch):
        target = kept / path.relative_to(checkpoint.spark)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.move(path, target)


def files_after(files: SparkFiles, batch: int) -> Sequence[Path]:
    """Returns the files of later batches: commits first, then offsets, then versions of the state."""
    logs = [
        files.folder / log / str(number)
        for log, numbers in (("commits", files.commits), ("offsets", files.offsets))
        for number in reversed(numbers)
        if number > batch
    ]
    versions = [
        path
        for partition in sorted((files.folder / "state").glob("*/*"))
        for path in sorted(partition.glob("[0-9]*.*"))
        if path.suffix in _STATE_SUFFIXES and path.stem.isdigit() and int(path.stem) > batch + 1
    ]
    return [*logs, *versions]


def _write_metadata(checkpoint: Checkpoint) -> None:
    path = checkpoint.spark / "metadata"
    if path.exists():
        _move_away(path)
    replace_file(path, new_metadata().encode())


def _database(checkpoint: Checkpoint, journal: ReadableJournal | None, damage: str) -> Iterator[RepairStep]:
    """An alert that Spark's state knows to be firing may be lost, so Spark starts with a new state, which finds it."""
    yield RepairStep(
        found=damage,
        repair="What can be read of the database is copied to a new one. Alerts whose delivery is not known are sent.",
        apply=lambda: _replace_database(checkpoint),
    )
    source = checkpoint_source(checkpoint)
    found = "alerts that are firing in Spark's state may be missing in the database"
    if source is not None and source.uri is not None:
        yield RepairStep(
            found=found,
            repair=f"This folder no longer belongs to Spark's state in {source.uri}: give the job another place as its "
            f"checkpoint, and it builds the state again from the relay's topic.",
            apply=lambda: record_source(checkpoint, replace(source, uri=None)),
        )
    elif source is not None and source.kind == KAFKA:
        yield RepairStep(
            found=found,
            repair="spark/ is moved away; the next start builds the state again from the relay's topic.",
            apply=lambda: _move_away(checkpoint.spark),
        )
    elif checkpoint.spark_files.has_state:
        yield from _logs_read_again(checkpoint, found)


def _replace_database(checkpoint: Checkpoint) -> None:
    database = sqlite_database(checkpoint.folder)
    kept = _free_name(database.path)
    set_aside(database.path, kept)
    database.copy_readable(sqlite_database(kept.parent, name=kept.name, read_only=True))
    database.close()


def _move_away(path: Path) -> None:
    path.rename(_free_name(path))


def _free_name(path: Path) -> Path:
    number = 1
    while (free := path.with_name(f"{path.name}{DAMAGED_SUFFIX}{number}")).exists():
        number += 1
    return free
