"""Repair of a job's damaged databases: finds what is damaged, says what it will do, and does it. Queries no cluster.

Spark's state needs none: a job sets one aside with which it cannot continue (`spark_state`). Whatever is replaced is
kept under another name.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import UsageError
from connectors.store.journal_file import journal_damage, journal_file, readable_journal, replace_journal
from connectors.store.sqlite_file import set_aside
from connectors.store.tables import sqlite_database
from rules.formatting import plural
from streaming.pipeline.checkpoint import Checkpoint, DamagedIdentityError
from streaming.pipeline.checkpoint_source import checkpoint_source


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairStep:
    """One finding and what repairs it."""

    found: str
    """Names the file and what is wrong."""
    repair: str
    """What is done, as a sentence."""
    apply: Callable[[], None]


def plan_repair(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    """Yields what is damaged, each with its repair. The checkpoint is locked by this process."""
    if checkpoint_source(checkpoint) is None:
        raise UsageError(f"checkpoint {checkpoint.folder} has neither journal/ nor spark/: there is nothing to repair")
    yield from _identity(checkpoint)
    yield from _journal(checkpoint)
    yield from _database(checkpoint)


def _identity(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    try:
        checkpoint.cluster_ids()
    except DamagedIdentityError:
        path = checkpoint.identity
        yield RepairStep(
            found=f"{path} cannot be read",
            repair="It is moved away; the next start asks each cluster for its id.",
            apply=lambda: set_aside(path, _free_name(path)),
        )


def _journal(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    damage, path = journal_damage(checkpoint.journal), journal_file(checkpoint.journal)
    if damage is None:
        return
    # None if not even the positions of its rows can be read.
    readable = readable_journal(checkpoint.journal)
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


def _database(checkpoint: Checkpoint) -> Iterator[RepairStep]:
    damage = checkpoint.database_damage()
    if damage is not None:
        yield RepairStep(
            found=damage,
            repair="What can be read of the database is copied to a new one. Alerts that still fire and are not in it, "
            "and those whose delivery is not known, are sent.",
            apply=lambda: _replace_database(checkpoint),
        )


def _replace_database(checkpoint: Checkpoint) -> None:
    database = sqlite_database(checkpoint.folder)
    kept = _free_name(database.path)
    set_aside(database.path, kept)
    database.copy_readable(sqlite_database(kept.parent, name=kept.name, read_only=True))
    database.close()


def _free_name(path: Path) -> Path:
    number = 1
    while (free := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return free
