"""ObservedLog: what the records say that the gatherer has delivered, by the simulation's own reference.

It follows the gatherer's read position through the committed records of the ground truth, and never asks the monitor.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connectors.observations.log_event import ControllerRegistered, LeaderChanged, VotersReplaced
from rules.model.identifiers import ReplicaKey
from tests.simulation.metadata_log import LogEntry
from tests.simulation.oracle import Oracle


class ObservedElection(NamedTuple):
    """One LeaderChangeMessage that was read as a record."""

    epoch: int
    timestamp_ms: int
    skipped: int
    """The epochs without a leader before it."""
    after_ms: int
    """The log's time since the record before it."""
    leader: int
    previous: int | None
    """The winner of the election before; None if that was only in a snapshot."""
    offset: int


class ObservedStart(NamedTuple):
    """A process that registered with a new incarnation id; of a broker at the time when it was fenced before."""

    role: str
    node: int
    timestamp_ms: int
    offset: int
    first: bool
    """Whether the node had not registered before."""


class ReadRange(NamedTuple):
    """Committed records that the gatherer delivered in one second; those below `start` were in a snapshot."""

    start: int
    end: int


NOTHING_READ = ReadRange(0, 0)


@dataclass(slots=True)
class ObservedLog:
    """Times are the log's clock, except `removed`: when the gatherer delivered the removal."""

    oracle: Oracle = field(default_factory=Oracle)
    newest_ms: int = 0
    elections: list[ObservedElection] = field(default_factory=list)
    starts: list[ObservedStart] = field(default_factory=list)
    incarnations: dict[int, set[str]] = field(default_factory=dict)
    """The processes of each controller that have registered."""
    returned: dict[int, int] = field(default_factory=dict)
    """When a process of a controller last registered again after another one."""
    leader: int | None = None
    """The winner of the newest election that was read as a record."""
    fencings: list[tuple[int, int]] = field(default_factory=list)
    """Each fencing of a broker that was alive: its node id and the timestamp."""
    forced: dict[int, int] = field(default_factory=dict)
    """The timestamp of each voter set that differs by several voters from the one before, by offset."""
    removed: dict[ReplicaKey, int] = field(default_factory=dict)
    unclean: dict[str, tuple[str, int]] = field(default_factory=dict)
    """As the oracle's, without elections that were only in a snapshot."""
    unclean_read_ms: dict[str, int] = field(default_factory=dict)
    """By topic id, the newest timestamp when the log was read to its end with the newest of these elections."""
    _not_at_end: set[str] = field(default_factory=set)
    lost: int = 0
    """How often the log was found to be rewritten, and read from its beginning."""

    def follow(self, now_ms: int, committed: Sequence[LogEntry], read: ReadRange) -> None:
        """Applies what the gatherer delivered in this second."""
        before = dict(self.unclean)
        while self.oracle.end < min(read.end, len(committed)):
            self._apply(now_ms, committed[self.oracle.end], recorded=self.oracle.end >= read.start)
        self._not_at_end |= {topic for topic, one in self.unclean.items() if before.get(topic) != one}
        self.unclean_read_ms |= dict.fromkeys(self._not_at_end, self.newest_ms)
        if self.oracle.end >= len(committed):
            self._not_at_end.clear()

    def _apply(self, now_ms: int, entry: LogEntry, *, recorded: bool) -> None:
        oracle, event = self.oracle, entry.event
        if isinstance(event, LeaderChanged) and recorded:
            known = oracle.leader_epoch
            skipped = 0 if known is None else entry.epoch - known - 1
            after_ms = max(0, entry.timestamp_ms - self.newest_ms)
            previous, self.leader = self.leader, int(event.leader_id)
            place = (self.leader, previous, oracle.end)
            self.elections.append(ObservedElection(entry.epoch, entry.timestamp_ms, skipped, after_ms, *place))
        if not recorded:
            self.leader = None
        if isinstance(event, ControllerRegistered) and recorded:
            held = oracle.controllers.get(event.id)
            if held is None or held[0] != event.incarnation_id:
                at = (entry.timestamp_ms, oracle.end)
                if held is not None and event.incarnation_id in self.incarnations.get(event.id, ()):
                    self.returned[event.id] = entry.timestamp_ms
                else:
                    self.starts.append(ObservedStart("controller", event.id, *at, held is None))
        if isinstance(event, ControllerRegistered):
            self.incarnations.setdefault(event.id, set()).add(event.incarnation_id)
        if isinstance(event, VotersReplaced):
            self._voters_replaced(now_ms, entry, event, recorded=recorded)
        before, brokers = dict(oracle.unclean), dict(oracle.brokers)
        alive = {node for node, (_, fenced, _) in oracle.brokers.items() if not fenced}
        oracle.apply(event)
        if recorded:
            fenced_now = {node for node, (_, fenced, _) in oracle.brokers.items() if fenced}
            self.fencings += [(node, entry.timestamp_ms) for node in alive & fenced_now]
            self._broker_starts(brokers, entry.timestamp_ms)
        if recorded and oracle.unclean != before:
            self.unclean |= {topic: one for topic, one in oracle.unclean.items() if before.get(topic) != one}
        self.newest_ms = entry.timestamp_ms

    def _broker_starts(self, before: dict[int, tuple[str, bool, bool]], now_ms: int) -> None:
        """Adds the brokers with another incarnation: when they were fenced before, and now if that was added."""
        for node, (incarnation, _, _) in self.oracle.brokers.items():
            if node not in before or before[node][0] == incarnation:
                continue
            fenced_ms = next((at_ms for other, at_ms in reversed(self.fencings) if other == node), None)
            known = {one.timestamp_ms for one in self.starts if one.role == "broker" and one.node == node}
            if fenced_ms is not None:
                at_ms = now_ms if fenced_ms in known else fenced_ms
                self.starts.append(ObservedStart("broker", node, at_ms, self.oracle.end, first=False))

    def _voters_replaced(self, now_ms: int, entry: LogEntry, event: VotersReplaced, *, recorded: bool) -> None:
        before, after = self.oracle.voters, {voter.key for voter in event.voters}
        if before is None:
            return
        if recorded and len(before ^ after) > 1:
            self.forced[self.oracle.end] = entry.timestamp_ms
        self.removed |= dict.fromkeys(before - after, now_ms)
        ids = {key.id for key in after}
        self.removed = {key: at_ms for key, at_ms in self.removed.items() if key.id not in ids}
