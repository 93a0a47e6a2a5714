"""A MetadataLog: one controller's copy of `__cluster_metadata`, with its voter-set history (KIP-853)."""

from collections.abc import Sequence
from typing import NamedTuple

from connectors.observations.log_event import LogEvent, TransactionBegan, TransactionEnded, VotersReplaced
from rules.model.identifiers import ReplicaKey
from rules.model.membership import Voter


class LogEntry(NamedTuple):
    """One record. Copies of one record are one object: two objects at one offset are two histories."""

    epoch: int
    written_ms: int
    timestamp_ms: int
    """When it was written by the leader's clock, which may be wrong."""
    event: LogEvent | None
    """None: a NoOpRecord."""


class MetadataLog:
    """Entries by offset. Entries below `start` are only in a snapshot and cannot be fetched."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.start = 0
        self.bootstrap: tuple[Voter, ...] = ()
        """The voters that the directory was formatted with."""
        self.sets: list[tuple[int, tuple[Voter, ...]]] = []
        """Offset and voters of each VotersRecord."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else 0

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The latest set, committed or not: it counts as soon as it is appended."""
        return self.sets[-1][1] if self.sets else self.bootstrap

    @property
    def previous(self) -> tuple[Voter, ...]:
        """The set before the latest: it counts again if the latest is truncated."""
        return self.sets[-2][1] if len(self.sets) > 1 else self.bootstrap

    @property
    def keys(self) -> frozenset[ReplicaKey]:
        return frozenset(voter.key for voter in self.voters)

    @property
    def static(self) -> bool:
        """True for controller.quorum.voters: kraft.version 0, no VotersRecord, no directory ids."""
        return not self.sets

    def stable_end(self, end: int) -> int:
        """Returns the possible end of a snapshot of the entries below `end`: never within a transaction (KIP-868)."""
        for offset in range(end - 1, -1, -1):
            event = self.entries[offset].event
            if isinstance(event, TransactionEnded):
                return end
            if isinstance(event, TransactionBegan):
                return offset
        return end

    def append(self, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            if isinstance(entry.event, VotersReplaced):
                self.sets.append((len(self.entries), entry.event.voters))
            self.entries.append(entry)

    def copied(self) -> "MetadataLog":
        """Returns a log with the same entries, which does not change with this one."""
        copied = MetadataLog()
        copied.entries, copied.start = [*self.entries], self.start
        copied.bootstrap, copied.sets = self.bootstrap, [*self.sets]
        return copied

    def truncate(self, end: int) -> None:
        """Truncates the log at this offset and reverts the voter sets above it."""
        del self.entries[end:]
        self.start = min(self.start, end)
        while self.sets and self.sets[-1][0] >= end:
            self.sets.pop()

    def replace(self, entries: Sequence[LogEntry]) -> None:
        """Replaces the log by a snapshot."""
        self.truncate(0)
        self.append(entries)
        self.start = len(self.entries)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Returns the largest epoch in the log that is not above this one, and its end offset (DivergingEpoch)."""
        end = len(self.entries)
        while end and self.entries[end - 1].epoch > epoch:
            end -= 1
        return (self.entries[end - 1].epoch if end else 0), end
