"""The recorded state: what the journal of a checkpoint tells of a cluster, replayed without Spark and without a lock.

Everything of the log that the journal still holds is applied, and the looks of its last day: older ones are forgotten
by the replay itself (`polls.LASTING_MS`), but for what a name that vanished before then resolved to. A journal drops
what was told long ago (a week by default), so it may begin in the middle of the log: then what the log said before is
not in it, and `whole` is False.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import UsageError
from connectors.gather.memory import Memory
from connectors.gather.rows import wall_ms
from connectors.journal.journal import Journal
from connectors.kafka.whereabouts import Learned
from connectors.observation import Kind
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.quorum import Millis
from streaming.observed import events_of
from streaming.oncall.glimpse import Glimpse
from streaming.replay.machine import Machine
from streaming.replay.polls import LASTING_MS

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


def recorded(folder: Path, new: NewMachine, *, say: Callable[[str], None] = lambda _: None) -> Mapping[str, Recorded]:
    """Replay a journal.

    Args:
        folder: a checkpoint folder or the `journal` in it.
        new: makes a machine at the first row of each cluster.
        say: is told how far it is, every two seconds.

    Returns:
        The clusters that were asked for and have rows, by name, in the order of their first row.

    Raises:
        UsageError: there is no journal.
        JournalError: the journal is damaged.
    """
    journal = _journal(folder)
    machines: dict[str, Machine | None] = {}
    newest: dict[str, Millis] = {}
    first, end = journal.first(), journal.published()
    since_ms = max((row.observed_at_ms for row in journal.read(max(first, end - 1), end)), default=0) - _LOOKS_MS
    told_at = time.monotonic()
    for row in journal.read(first, end):
        if row.sequence % 1_000 == 0 and time.monotonic() - told_at > _SPEAK_EVERY_S:
            told_at = time.monotonic()
            say(f"reading the journal: {row.sequence - first} of {end - first} rows")
        if row.cluster not in machines:
            machines[row.cluster] = new(row.cluster)
        machine = machines[row.cluster]
        if machine is not None and (row.kind in _OF_THE_LOG or row.observed_at_ms >= since_ms):
            at_ms = newest[row.cluster] = Millis(row.observed_at_ms)
            machine.apply(events_of(row).events(), sequence=row.sequence, observed_at_ms=at_ms)
    memory = Memory(journal.directory)
    return {
        name: Recorded(machine=machine, newest_ms=newest[name], learned=memory.of(name))
        for name, machine in machines.items()
        if machine is not None and name in newest
    }


def remembered(recorded: Recorded, thresholds: Mapping[str, Thresholds]) -> Glimpse:
    """A recorded state, judged as of its own newest moment; nobody is asked."""
    quorum = recorded.machine.quorum()
    return Glimpse(
        quorum=quorum,
        judgement=evaluate(quorum, thresholds),
        thresholds=thresholds,
        taken_at_ms=Millis(wall_ms()),
        looked_since_ms=None,
        recorded_at_ms=recorded.newest_ms,
        missing=() if recorded.whole else ("the journal no longer reaches back to the beginning of the log",),
    )


def _journal(folder: Path) -> Journal:
    for place in (folder / "journal", folder):
        journal = Journal(place.absolute())
        if journal.created:
            return journal
    raise UsageError(f"--journal {folder}: no journal is there; give the --checkpoint folder of `kraftwatch run`")
