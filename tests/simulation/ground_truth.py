"""The GroundTruth: the committed records and the leaders, and the invariants that the quorum itself must keep.

K043: epochs never decrease, one leader per epoch, one entry at (offset, epoch). K044: a high watermark never decreases,
is within the log, and passes only an entry of the leader's own epoch. K045: one uncommitted voter change at most,
committed sets differ by one voter, their majorities overlap. K047: a RECOVERING partition has only its leader in sync,
or neither leader nor ISR.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from connectors.observations.log_event import VotersReplaced
from rules.model.identifiers import ReplicaKey
from rules.model.membership import Voter
from tests.record_image import RecordImage
from tests.simulation.metadata_log import LogEntry, MetadataLog

if TYPE_CHECKING:
    from tests.simulation.replica import SimulatedReplica


class BrokenInvariant(AssertionError):
    """An invariant was violated, by the quorum or by the monitor."""


class GroundTruth:
    """Invariant: `committed` only grows."""

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        """False: violations are recorded and not raised, to test which alerts they cause."""
        self.committed: list[LogEntry] = []
        self.leaders: dict[int, int] = {}
        self.epochs: dict[ReplicaKey, int] = {}
        self.high_watermarks: dict[tuple[ReplicaKey, int], int] = {}
        self.entries: dict[tuple[int, int], LogEntry] = {}
        self.oracle = RecordImage()
        self.violations: list[str] = []
        self.forced_offsets: set[int] = set()
        """Where a voter set may differ by several voters: an operator forced it."""
        self.faulty_recoveries = False
        """An incident lets the active controller violate K047."""

    def check(self, kept: bool, sentence: str) -> None:
        if not kept:
            self.violations.append(sentence)
            if self.strict:
                raise BrokenInvariant(sentence)

    def record_leader(self, node: "SimulatedReplica") -> None:
        known = self.leaders.setdefault(node.epoch, node.id)
        self.check(known == node.id, f"K043: epoch {node.epoch} has the leaders {known} and {node.id}")
        complete = self._holds_committed(node.log)
        self.check(complete, f"leader completeness: {node.key} leads epoch {node.epoch} without committed records")

    def record_written(self, node: "SimulatedReplica", offset: int, entry: LogEntry) -> None:
        known = self.entries.setdefault((offset, entry.epoch), entry)
        self.check(known is entry, f"K043: two records at offset {offset} in epoch {entry.epoch}")
        if isinstance(entry.event, VotersReplaced) and node.high_watermark > node.epoch_start:
            pending = [at for at, _ in node.log.sets if at >= node.high_watermark]
            self.check(len(pending) <= 1, f"K045: uncommitted voter sets at {pending} in the log of {node.key}")

    def check_epoch_and_high_watermark(self, node: "SimulatedReplica") -> None:
        """Checks a controller's epoch and high watermark after every step."""
        before = self.epochs.get(node.key, 0)
        if node.epoch < before:
            self.check(False, f"K043: the epoch of {node.key} decreased from {before} to {node.epoch}")
        self.epochs[node.key] = node.epoch
        if node.high_watermark > len(node.log):
            self.check(False, f"K044: high watermark of {node.key} is beyond its log")
        if node.leads:
            mark = self.high_watermarks.get((node.key, node.epoch), 0)
            if node.high_watermark < mark:
                self.check(False, f"K044: high watermark of leader {node.key} decreased from {mark}")
            self.high_watermarks[node.key, node.epoch] = node.high_watermark

    def check_copied(self, node: "SimulatedReplica", offset: int, entries: Iterable[LogEntry]) -> None:
        for offset_of_entry, entry in enumerate(entries, offset):
            known = self.entries.get((offset_of_entry, entry.epoch))
            self.check(
                known is entry, f"log matching: {node.key} holds another record at ({offset_of_entry}, {entry.epoch})"
            )

    def check_truncation(self, node: "SimulatedReplica", end: int) -> None:
        self.check(end >= node.high_watermark, f"{node.key} truncates its log at {end}, below its high watermark")

    def commit(self, node: "SimulatedReplica", end: int) -> None:
        """Adds the records that a leader commits by raising its high watermark."""
        self.check(
            node.log.entries[end - 1].epoch == node.epoch, f"K044: {node.key} commits up to another epoch's entry"
        )
        overlap = min(end, len(self.committed))
        same = not overlap or node.log.entries[overlap - 1] is self.committed[overlap - 1]
        self.check(same, f"committed offset {overlap - 1} was rewritten by {node.key} in epoch {node.epoch}")
        for entry in node.log.entries[len(self.committed) : end]:
            if isinstance(entry.event, VotersReplaced) and len(self.committed) not in self.forced_offsets:
                self._reconfigured(entry.event.voters)
            self.committed.append(entry)
            self.oracle.apply(entry.event)
        for partition, one in () if self.faulty_recoveries else self.oracle.recovering.items():
            alone = one.isr == (one.leader,) or (one.leader is None and len(one.isr) <= 1)
            self.check(alone, f"K047: {partition} is RECOVERING with leader {one.leader} and ISR {one.isr}")

    def lose(self, end: int) -> None:
        """Forgets the committed records from this offset on: a majority of the disks was restored from older copies."""
        del self.committed[end:]
        self.entries = {place: entry for place, entry in self.entries.items() if place[0] < end}
        self.high_watermarks.clear()
        # The nodes keep this oracle: it is changed, not replaced.
        self.oracle.reset()
        for entry in self.committed:
            self.oracle.apply(entry.event)

    def _reconfigured(self, voters: tuple[Voter, ...]) -> None:
        before, after = self.oracle.voters, frozenset(voter.key for voter in voters)
        if before is not None:
            changed = len(before ^ after)
            self.check(changed <= 1, f"K045: committed voter sets differ by {changed} voters")

    def _holds_committed(self, log: MetadataLog) -> bool:
        end = len(self.committed)
        return end <= len(log) and (not end or log.entries[end - 1] is self.committed[end - 1])
