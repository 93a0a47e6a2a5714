"""Repair of a damaged checkpoint: finds what is damaged, says what it will do, and does it. Queries no cluster.

Spark's state is not repaired: a job sets one aside with which Spark cannot continue (`begin_new_state`), and starts
with a new one, from the journal if that is complete, else from each
cluster's log, which the gatherer then reads again. The alerts that are firing in the ledger keep firing in the new
state (`streaming.pipeline.early_alerts`).

Whatever is replaced is kept under another name.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError, UsageError
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
from streaming.pipeline.checkpoint import Checkpoint, DamagedIdentityError
from streaming.pipeline.checkpoint_source import KAFKA, checkpoint_source, record_source
from streaming.pipeline.page_files import PageFiles
from streaming.pipeline.query import error_cause
from streaming.pipeline.schema import unpack_states
from streaming.replay.state_codec import stored_references
from streaming.replay.stored_topics import MissingPageError

_KEPT_SUFFIX = ".damaged-"
_BEFORE_SUFFIX = ".before-"
_STILL_FIRING = (
    "Firing alerts are in the ledger: they are not sent again, and they resolve when their condition is over."
)
OpenSpark = Callable[[], SparkSession]
"""Starts Spark, or returns the session that runs."""


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

    The checkpoint is locked by this process; `open_spark` is called only if Spark's state must be read.
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
    source = checkpoint_source(checkpoint)
    of_topic = source is not None and source.kind == KAFKA
    rebuildable = of_topic or _rebuildable(checkpoint, journal)
    found = _obstacle(checkpoint, journal, rebuildable=rebuildable, of_topic=of_topic) or _unreadable(
        checkpoint, open_spark
    )
    if found is None:
        return
    if not rebuildable:
        yield _logs_read_again(checkpoint, found)
        return
    rows = "the relay's topic" if of_topic else "the journal, which is complete"
    yield RepairStep(
        found=found,
        repair=f"spark/ is moved away; the next start builds the state again from {rows}. {_STILL_FIRING}",
        apply=lambda: _move_away(checkpoint.spark),
    )


def _obstacle(
    checkpoint: Checkpoint, journal: ReadableJournal | None, *, rebuildable: bool, of_topic: bool
) -> str | None:
    """Returns why Spark cannot continue, as far as its logs and the journal show it."""
    files = checkpoint.spark_files
    if damaged := files.damaged():
        return "; ".join(damaged)
    if not files.offsets:
        return None if rebuildable else f"{checkpoint.spark} has no offsets, and journal/ lacks its first rows"
    planned = files.newest_planned_end()
    if of_topic or planned is None:
        return None
    if journal is None or journal.journal_id != planned.journal_id:
        return "journal/ is not the one that Spark has read"
    if not journal.first <= planned.sequence <= journal.end:
        return f"journal/ does not have row {planned.sequence}"
    return None


def _unreadable(checkpoint: Checkpoint, open_spark: OpenSpark) -> str | None:
    """Returns why Spark cannot read its state, or a page of it."""
    if not checkpoint.spark_files.has_state:
        return None
    try:
        for cluster, state in read_states(open_spark(), checkpoint.spark).items():
            pages, needed = PageFiles(checkpoint.spark, cluster), frozenset[bytes]()
            # A state that cannot be decoded concerns its cluster only.
            with suppress(UsageError, ValueError):
                needed = stored_references(cluster, state)
            for reference in needed:
                pages.get(reference)
    except (UnreadableStateError, MissingPageError) as error:
        return f"Spark cannot read its state: {error}"
    return None


class UnreadableStateError(KraftwatchError):
    """Spark cannot read its state."""


def read_states(spark: SparkSession, folder: Path) -> Mapping[str, bytes]:
    """Returns the stored state of each cluster in Spark's checkpoint, whose query is stopped.

    Raises UnreadableStateError if a file is missing or damaged.
    """
    # Spark creates the StateStoreCoordinator, which the reader needs, with the session's manager of queries.
    _ = spark.streams.active
    try:
        rows = spark.read.format("statestore").option("path", str(folder)).load().collect()
        groups = [unpack_states(bytes(row.value.groupState.state)) for row in rows]
    except (PySparkException, Py4JError) as problem:
        raise UnreadableStateError(error_cause(problem)) from problem
    except ValueError as problem:
        raise UnreadableStateError(str(problem)) from problem
    return {cluster: state for group in groups for cluster, state in group.items()}


def _rebuildable(checkpoint: Checkpoint, journal: ReadableJournal | None) -> bool:
    """Whether the journal holds everything from which a new state is built, and all of it can be read."""
    if journal is None:
        # A new job, unless the journal is damaged as a whole.
        return not JournalReader(checkpoint.journal).created
    return journal.complete


def begin_new_state(checkpoint: Checkpoint) -> str:
    """Lets Spark begin with a new state; the former one is kept as spark.before-1. The checkpoint is locked.

    Returns from what the new state is built, as the object of a sentence.
    """
    for former in checkpoint.folder.glob(f"{checkpoint.spark.name}{_BEFORE_SUFFIX}*"):
        shutil.rmtree(former, ignore_errors=True)
    journal, source = JournalReader(checkpoint.journal), checkpoint_source(checkpoint)
    if source is not None and source.kind == KAFKA:
        _move_away(checkpoint.spark, _BEFORE_SUFFIX)
        return "the relay's topic"
    if journal.created and not journal.complete:
        _read_logs_again(checkpoint, _BEFORE_SUFFIX)
        return "each cluster's metadata log, which is read again"
    _move_away(checkpoint.spark, _BEFORE_SUFFIX)
    return "the journal"


def _logs_read_again(checkpoint: Checkpoint, found: str) -> RepairStep:
    return RepairStep(
        found=found,
        repair="Spark starts with a new state, and the gatherer reads each cluster's metadata log again. "
        f"{_STILL_FIRING} Rows that were recorded but not evaluated are not evaluated.",
        apply=lambda: _read_logs_again(checkpoint),
    )


def _read_logs_again(checkpoint: Checkpoint, suffix: str = _KEPT_SUFFIX) -> None:
    with JournalWriter(checkpoint.journal) as writer:
        writer.read_logs_again()
    # Last: a journal that cannot be written must not cost the state.
    if checkpoint.spark.exists():
        _move_away(checkpoint.spark, suffix)


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
        yield _logs_read_again(checkpoint, found)


def _replace_database(checkpoint: Checkpoint) -> None:
    database = sqlite_database(checkpoint.folder)
    kept = _free_name(database.path)
    set_aside(database.path, kept)
    database.copy_readable(sqlite_database(kept.parent, name=kept.name, read_only=True))
    database.close()


def _move_away(path: Path, suffix: str = _KEPT_SUFFIX) -> None:
    path.rename(_free_name(path, suffix))


def _free_name(path: Path, suffix: str = _KEPT_SUFFIX) -> Path:
    number = 1
    while (free := path.with_name(f"{path.name}{suffix}{number}")).exists():
        number += 1
    return free
