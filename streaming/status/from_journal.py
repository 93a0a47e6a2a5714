"""The recorded state: what the journal of a checkpoint tells of a cluster, replayed without Spark and without a lock.

Everything of the log that the journal still holds is applied, and the looks of its last day: older ones are forgotten
by the replay itself (`polls.LASTING_MS`), but for what a name that vanished before then resolved to. A journal drops
what was told long ago (a week by default), so it may begin in the middle of the log: then what the log said before is
not in it, and `whole` is False.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.errors import UsageError
from connectors.gather.endpoint_cache import Memory
from connectors.gather.node_directory import Learned
from connectors.gather.observation_writer import wall_ms
from connectors.journal.reader import Journal
from connectors.observation import Kind, Observation
from connectors.point_in_time import AtOffset, AtTime, Moment
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from streaming.replay.machine import Machine
from streaming.replay.poll_history import LASTING_MS
from streaming.status.as_of import Extent, events_upto, within
from streaming.status.cluster_state import Glimpse
from streaming.status.from_log_dir import Disk
from streaming.status.health import of_the_quorum

_SPEAK_EVERY_S = 2.0
_LOOKS_MS = LASTING_MS + 3_600_000
_OF_THE_LOG = (Kind.RECORDS, Kind.SNAPSHOT)

NewMachine = Callable[[str], Machine | None]
"""Makes the machine for a cluster by its name; None: that one is not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One cluster as the journal knows it."""

    machine: Machine
    newest_ms: Millis
    """observed_at of its newest row."""
    learned: Learned
    """Where its nodes were last said to be."""

    @property
    def whole(self) -> bool:
        """The journal reaches back to the log's beginning or to a whole snapshot."""
        return self.machine.log.image.complete

    @property
    def missing(self) -> tuple[str, ...]:
        """What the journal cannot tell, in words."""
        return () if self.whole else ("the journal no longer reaches back to the beginning of the log",)


def recorded(
    folder: Path, new: NewMachine, *, upto: Moment | None = None, say: Callable[[str], None] = lambda _: None
) -> Mapping[str, Recorded]:
    """Replay a journal.

    Args:
        folder: a checkpoint folder or the `journal` in it.
        new: makes a machine at the first row of each cluster.
        upto: the state as of then: of an offset when it was read, of a time with all that was observed by then.
        say: is told how far it is, every two seconds.

    Returns:
        The clusters that were asked for and have rows, by name, in the order of their first row.

    Raises:
        UsageError: there is no journal, or it does not tell of that moment.
        JournalError: the journal is damaged.
    """
    journal = _journal(folder)
    tapes: dict[str, _Tape | None] = {}
    first, end = journal.first(), journal.published()
    since_ms = (upto.at_ms if isinstance(upto, AtTime) else _newest(journal)) - _LOOKS_MS
    told_at = time.monotonic()
    for row in journal.read(first, end):
        if row.sequence % 1_000 == 0 and time.monotonic() - told_at > _SPEAK_EVERY_S:
            told_at = time.monotonic()
            say(f"reading the journal: {row.sequence - first} of {end - first} rows")
        if row.cluster not in tapes:
            machine = new(row.cluster)
            tapes[row.cluster] = None if machine is None else _Tape(machine, upto)
        tape = tapes[row.cluster]
        if tape is not None and (row.kind in _OF_THE_LOG or row.observed_at_ms >= since_ms or upto is not None):
            tape.play(row)
    memory = Memory(journal.directory)
    played = {name: tape for name, tape in tapes.items() if tape is not None}
    if isinstance(upto, AtOffset) and len(played) > 1:
        raise UsageError(
            f"--at {upto.offset}: an offset is one cluster's, and {folder} holds {len(played)}: give a time"
        )
    for name, tape in played.items():
        tape.reaches(f"the journal of cluster {name}")
    return {
        name: Recorded(machine=tape.machine, newest_ms=tape.newest_ms, learned=memory.of(name))
        for name, tape in played.items()
        if tape.newest_ms is not None
    }


def remembered(
    machine: Machine,
    newest_ms: Millis,
    thresholds: Mapping[str, Thresholds],
    *,
    missing: tuple[str, ...] = (),
    disk: Disk | None = None,
) -> Glimpse:
    """A state that was recorded, judged as of its own newest moment; nobody is asked.

    Args:
        machine: what was recorded, replayed.
        newest_ms: when the newest of it was observed.
        thresholds: by rule id.
        missing: what its source cannot tell, in words.
        disk: the directory it comes from, if it does.
    """
    quorum = machine.quorum()
    evaluation = evaluate(quorum, thresholds)
    if disk is not None:
        # Of a disk nothing else was wished for: that nobody was asked is said, and no fault of anybody's.
        evaluation = replace(evaluation, findings=of_the_quorum(evaluation.findings))
    return Glimpse(
        quorum=quorum,
        evaluation=evaluation,
        thresholds=thresholds,
        taken_at_ms=Millis(wall_ms()),
        looked_since_ms=None,
        recorded_at_ms=newest_ms,
        missing=missing,
        disk=disk,
    )


def newest(folder: Path) -> Millis:
    """When the newest row of a journal was observed; 0 where it has none.

    Raises:
        UsageError: there is no journal.
        JournalError: the journal is damaged.
    """
    return _newest(_journal(folder))


class _Tape:
    """One cluster's rows, played up to a moment."""

    def __init__(self, machine: Machine, upto: Moment | None) -> None:
        self.machine = machine
        self.newest_ms: Millis | None = None
        """observed_at of the newest row that was applied."""
        self._upto = upto
        self._over = False
        self._extent = Extent()

    def play(self, row: Observation) -> None:
        """Apply a row, unless the moment is over."""
        if self._upto is not None:
            self._extent = self._extent.with_row(row)
            self._over = self._over or self._later(row, self._upto)
        if self._over:
            return
        self.newest_ms = Millis(row.observed_at_ms)
        self.machine.apply(events_upto(row, self._upto), sequence=row.sequence, observed_at_ms=self.newest_ms)
        self._over = isinstance(self._upto, AtOffset) and self.machine.log.position >= self._upto.offset

    def reaches(self, place: str) -> None:
        """Refuse a moment that the rows do not tell of.

        Raises:
            UsageError: see there.
        """
        within(self._upto, self._extent, place)
        if isinstance(self._upto, AtOffset) and self.machine.log.position != self._upto.offset:
            raise UsageError(f"--at {self._upto.offset}: {place} passes over it, from a snapshot to what came after")

    def _later(self, row: Observation, upto: Moment) -> bool:
        match upto:
            case AtTime(at_ms=at_ms):
                return row.observed_at_ms > at_ms
            case AtOffset(offset=offset):
                first = (row.base_offset or 0) - (row.kind is Kind.SNAPSHOT)
                return row.kind in _OF_THE_LOG and first > offset


def has_journal(folder: Path) -> bool:
    """Whether something was recorded there."""
    return any(Journal(place.absolute()).created for place in _places(folder))


def _journal(folder: Path) -> Journal:
    for place in _places(folder):
        journal = Journal(place.absolute())
        if journal.created:
            return journal
    raise UsageError(f"--journal {folder}: no journal is there; give the --checkpoint folder of `kraftwatch run`")


def _newest(journal: Journal) -> Millis:
    end = journal.published()
    rows = journal.read(max(journal.first(), end - 1), end)
    return Millis(max((row.observed_at_ms for row in rows), default=0))


def _places(folder: Path) -> tuple[Path, Path]:
    return folder / "journal", folder
