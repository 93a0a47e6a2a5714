"""The GroundTruth: the committed records and the leaders, with what the quorum violates while a fault is planted in it.

One leader an epoch, which has all committed records. What is committed is never rewritten. A RECOVERING
partition has only its leader in sync, or neither leader nor ISR.
"""

from typing import TYPE_CHECKING

from tests.record_image import RecordImage
from tests.simulation.metadata_log import LogEntry

if TYPE_CHECKING:
    from tests.simulation.controller import SimulatedController


class BrokenInvariant(AssertionError):
    """An invariant was violated, by the quorum or by the monitor."""


class GroundTruth:
    """Invariant: `committed` only grows."""

    def __init__(self, *, strict: bool = True) -> None:
        self.strict = strict
        """False: violations are recorded and not raised, to test which alerts they cause."""
        self.committed: list[LogEntry] = []
        self.leaders: dict[int, int] = {}
        self.oracle = RecordImage()
        self.violations: list[str] = []

    def check(self, kept: bool, sentence: str) -> None:
        if not kept:
            self.violations.append(sentence)
            if self.strict:
                raise BrokenInvariant(sentence)

    def record_leader(self, node: "SimulatedController") -> None:
        known = self.leaders.setdefault(node.epoch, node.id)
        self.check(known == node.id, f"epoch {node.epoch} has the leaders {known} and {node.id}")
        end = len(self.committed)
        complete = end <= len(node.log) and (not end or node.log.entries[end - 1] is self.committed[end - 1])
        self.check(complete, f"leader completeness: {node.key} leads epoch {node.epoch} without committed records")

    def commit(self, node: "SimulatedController", end: int) -> None:
        """Adds the records that a leader commits by raising its high watermark."""
        overlap = min(end, len(self.committed))
        same = not overlap or node.log.entries[overlap - 1] is self.committed[overlap - 1]
        self.check(same, f"committed offset {overlap - 1} was rewritten by {node.key} in epoch {node.epoch}")
        for entry in node.log.entries[len(self.committed) : end]:
            self.committed.append(entry)
            self.oracle.apply(entry.event)
        for partition, one in self.oracle.recovering.items():
            alone = one.isr == (one.leader,) or (one.leader is None and len(one.isr) <= 1)
            self.check(alone, f"{partition} is RECOVERING with leader {one.leader} and ISR {one.isr}")

    def lose(self, end: int) -> None:
        """Forgets the committed records from this offset on: a majority of the disks was restored from older copies."""
        del self.committed[end:]
        # The nodes keep this oracle: it is changed, not replaced.
        self.oracle.reset()
        for entry in self.committed:
            self.oracle.apply(entry.event)
