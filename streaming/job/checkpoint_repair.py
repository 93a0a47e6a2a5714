"""Repair of a damaged checkpoint: finds what is damaged, says what it will do, and does it. Queries no cluster.

Spark's state is never written here. If the state after an older batch is intact, the batches after it are taken away,
and Spark repeats them: the journal has their rows, and the ledger the alerts that were sent. Otherwise Spark starts
with a new state: from the journal if that is complete, else from each cluster's log, which the gatherer then reads
again. The alerts that are firing in the ledger keep firing in the new state (`streaming.pipeline.initial_alerts`).

Whatever is replaced is kept under another name.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.durable_file import replace_file
from connectors.errors import JournalError, UsageError
from connectors.journal.position_repair import lower_committed, published_damage, restart_damage, restore_published
from connectors.journal.reader import PUBLISHED, RESTART, JournalReader
from connectors.journal.segment_repair import damaged_segment, replace_segments
from connectors.journal.writer import JournalWriter
from connectors.store.database import FILE_SUFFIXES, Database
from connectors.store.tables import TABLES, job_database
from streaming.job.clusters_without_state import forget_known_states
from streaming.job.intact_state import OpenSpark, new_metadata, newest_intact
from streaming.pipeline.checkpoint import Checkpoint, DamagedIdentityError
from streaming.pipeline.checkpoint_source import KAFKA, checkpoint_source
from streaming.pipeline.spark_files import PlannedEnd, SparkFiles
from streaming.pipeline.spark_state import UnreadableStateError, read_states

DAMAGED_SUFFIX = ".damaged-"
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
        JournalError: the journal is damaged in a way that only a backup can repair.
        UsageError: Spark does not start.
    """
    if not checkpoint.journal.exists() and not checkpoint.spark.exists():
        raise UsageError(f"checkpoint {checkpoint.folder} has neither journal/ nor spark/: there is nothing to repair")
    yield from _identity(checkpoint)
    yield from _published(checkpoint)
    damage = checkpoint.database_damage()
    yield from _spark(checkpoint, open_spark) if damage is None else _database(checkpoint, damage)


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


def _published(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    journal = checkpoint.journal
    damage = published_damage(journal)
    if damage is not None:
        planned = checkpoint.spark_files.newest_planned_end()
        yield RepairStep(
            found=f"{journal / PUBLISHED}: {damage}",
            repair="It is written again from the segments: every row that was synced is kept.",
            apply=lambda: _restore_published(journal, planned),
        )


def _restore_published(journal: Path, planned: PlannedEnd | None) -> None:
    restore_published(journal, at_least=0 if planned is None else planned.sequence)
    # Opening the journal publishes every whole row after the newest segment's first one.
    with JournalWriter(journal):
        pass


def _spark(checkpoint: Checkpoint, open_spark: OpenSpark) -> Iterator[RepairStep]:
    files = checkpoint.spark_files
    if (source := checkpoint_source(checkpoint)) is not None and source.kind == KAFKA:
        yield from _spark_of_topic(checkpoint, open_spark)
        return
    if not files.offsets and not files.commits:
        if not _rebuildable(checkpoint):
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
    intact, problem = newest_intact(checkpoint, open_spark)
    if intact is not None:
        yield from _restart_position(checkpoint)
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
    elif _rebuildable(checkpoint):
        yield RepairStep(
            found=f"{found}; the state of no batch is intact",
            repair="spark/ is moved away; the next start builds the state again from the journal, which is complete. "
            "Firing alerts are in the ledger: they are not sent again, and they resolve when their condition is over.",
            apply=lambda: _move_away(checkpoint.spark),
        )
    else:
        yield from _logs_read_again(checkpoint, f"{found}; the state of no batch is intact")


def _restart_position(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    """Of a state that is kept; where the logs are read again, the file is written again."""
    path = checkpoint.journal / RESTART
    damage = restart_damage(checkpoint.journal)
    if damage is not None:
        yield RepairStep(
            found=f"{path}: {damage}",
            repair="It is moved away: a DataFrame of the journal then begins with its oldest row.",
            apply=lambda: _move_away(path),
        )


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
        yield RepairStep(
            found=found,
            repair="spark/ is moved away; the next start builds the state again from the relay's topic. Firing alerts "
            "are in the ledger: they are not sent again, and they resolve when their condition is over.",
            apply=lambda: _move_away(checkpoint.spark),
        )


def _rebuildable(checkpoint: Checkpoint) -> bool:
    """Whether the journal holds everything from which a new state is built, and all of it can be read."""
    if published_damage(checkpoint.journal) is not None:
        return JournalReader(checkpoint.journal).first_sequence() == 0
    journal = JournalReader(checkpoint.journal)
    if not journal.created:
        return True
    if not journal.complete:
        return False
    try:
        for _ in journal.read(journal.beginning(), journal.published_end()):
            pass
    except JournalError:
        return False
    return True


def _logs_read_again(checkpoint: Checkpoint, found: str) -> Iterator[RepairStep]:
    journal = checkpoint.journal
    damaged = damaged_segment(journal) if published_damage(journal) is None else None
    if damaged is not None:
        planned = checkpoint.spark_files.newest_planned_end()
        yield RepairStep(
            found=f"{damaged} is damaged",
            repair="The journal's segments are moved away, and the numbers of the rows continue.",
            apply=lambda: replace_segments(
                journal, kept=_free_name(journal), at_least=0 if planned is None else planned.sequence
            ),
        )
    yield RepairStep(
        found=found,
        repair="Spark starts with a new state, and the gatherer reads each cluster's metadata log again. Firing alerts "
        "are in the ledger: they are not sent again, and they resolve when their condition is over. Rows that were "
        "recorded but not evaluated are not evaluated.",
        apply=lambda: _read_logs_again(checkpoint),
    )


def _read_logs_again(checkpoint: Checkpoint) -> None:
    with JournalWriter(checkpoint.journal) as writer:
        (checkpoint.journal / RESTART).unlink(missing_ok=True)
        writer.read_logs_again()
    # Last: a journal that cannot be written must not cost the state.
    if checkpoint.spark.exists():
        _move_away(checkpoint.spark)


def _continue_after(checkpoint: Checkpoint, batch: int) -> None:
    """Moves the files of all batches after `batch` away, in an order that an interruption does not make worse."""
    end = checkpoint.spark_files.planned_end(batch)
    assert end is not None, "the batch was chosen because its offset is intact"
    lower_committed(checkpoint.journal, end.sequence)
    forget_known_states(checkpoint)
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


def _database(checkpoint: Checkpoint, damage: str) -> Iterator[RepairStep]:
    """An alert that Spark's state knows to be firing may be lost, so Spark starts with a new state, which finds it."""
    yield RepairStep(
        found=damage,
        repair="What can be read of the database is copied to a new one. Alerts whose delivery is not known are sent.",
        apply=lambda: _replace_database(checkpoint),
    )
    source = checkpoint_source(checkpoint)
    found = "alerts that are firing in Spark's state may be missing in the database"
    if source is not None and source.kind == KAFKA:
        yield RepairStep(
            found=found,
            repair="spark/ is moved away; the next start builds the state again from the relay's topic.",
            apply=lambda: _move_away(checkpoint.spark),
        )
    elif checkpoint.spark_files.has_state:
        yield from _logs_read_again(checkpoint, found)


def _replace_database(checkpoint: Checkpoint) -> None:
    database = job_database(checkpoint.folder)
    kept = _free_name(database.path)
    for suffix in ("", *FILE_SUFFIXES):
        path = database.path.with_name(database.path.name + suffix)
        if path.exists():
            path.rename(kept.with_name(kept.name + suffix))
    database.copy_readable(Database(kept, TABLES, read_only=True))
    database.close()


def _move_away(path: Path) -> None:
    path.rename(_free_name(path))


def _free_name(path: Path) -> Path:
    number = 1
    while (free := path.with_name(f"{path.name}{DAMAGED_SUFFIX}{number}")).exists():
        number += 1
    return free
