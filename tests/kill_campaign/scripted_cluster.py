"""A scripted cluster: polls of three voters, one a second, in which conditions begin, change and end.

No socket and no clock: the same random numbers give the same observations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random

from connectors.event import to_json
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import NodeEndpoints, ObservationFailed, QuorumPolled
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import ObservationSource, Reason
from rules.model.poll import Replica

NODES = (1, 2, 3)
HEALTHY_S = (5, 9)
FAULT_S = (7, 12)
"""Longer than the short hold and clear times of the recording."""


class Condition(Enum):
    """What the polls of one phase show."""

    HEALTHY = auto()
    NO_LEADER = auto()
    UNREACHABLE = auto()
    """Every poll fails: kraftwatch observes nothing."""
    ONE_VOTER_LAGS = auto()
    TWO_VOTERS_LAG = auto()
    DISK_REPLACED = auto()
    """Voter 3 does not fetch, and an observer with the same id and another directory id does."""


FAULTS = tuple(condition for condition in Condition if condition is not Condition.HEALTHY)


@dataclass(slots=True, kw_only=True)
class ScriptedCluster:
    """One cluster and its observations, from `now_ms` on."""

    name: str
    cluster_id: str
    random: Random
    now_ms: int
    end_offset: int = 100
    epoch: int = 3
    last_fetch_ms: dict[int, int] = field(default_factory=dict)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """HOST:PORT of each controller."""
        return tuple(f"{self.name}-c{node}.test:9093" for node in NODES)

    def observations(self, faults: int) -> Iterator[Observation]:
        """Yields the rows of so many phases with a fault, each between healthy phases."""
        yield from self._phase(Condition.HEALTHY, self.random.randint(*HEALTHY_S))
        for _ in range(faults):
            fault = self.random.choice(FAULTS)
            yield from self._phase(fault, self.random.randint(*FAULT_S))
            if fault is Condition.TWO_VOTERS_LAG and self.random.random() < 0.5:
                # The severity decreases before the alert resolves.
                yield from self._phase(Condition.ONE_VOTER_LAGS, self.random.randint(*FAULT_S))
            yield from self._phase(Condition.HEALTHY, self.random.randint(*HEALTHY_S))
        yield from self._phase(Condition.HEALTHY, 2 * HEALTHY_S[1])

    def _phase(self, condition: Condition, seconds: int) -> Iterator[Observation]:
        self.epoch += condition is Condition.NO_LEADER
        for _ in range(seconds):
            self.now_ms += 1_000
            if condition is Condition.NO_LEADER:
                yield from self._failures(Reason.NO_LEADER, "knows no leader")
            elif condition is Condition.UNREACHABLE:
                yield from self._failures(Reason.TIMED_OUT, "no response within 5 s")
            else:
                self.end_offset += 2
                yield self._row(ObservationKind.QUORUM, self._poll(condition))

    def _failures(self, reason: Reason, detail: str) -> Iterator[Observation]:
        for endpoint in self.bootstrap:
            failed = ObservationFailed(source=ObservationSource.QUORUM, endpoint=endpoint, reason=reason, detail=detail)
            yield self._row(ObservationKind.FAILED, failed)

    def _row(self, kind: ObservationKind, event: QuorumPolled | ObservationFailed) -> Observation:
        return Observation(cluster=self.name, kind=kind, observed_at_ms=self.now_ms, payload=to_json(event))

    def _poll(self, condition: Condition) -> QuorumPolled:
        not_fetching = {
            Condition.ONE_VOTER_LAGS: {3},
            Condition.TWO_VOTERS_LAG: {2, 3},
            Condition.DISK_REPLACED: {3},
        }.get(condition, set())
        voters = [self._replica(node, f"directory{node}", fetches=node not in not_fetching) for node in NODES]
        observers = [self._replica(3, "directory3b", fetches=True)] if condition is Condition.DISK_REPLACED else []
        return QuorumPolled(
            cluster_id=self.cluster_id,
            endpoint=self.bootstrap[0],
            leader_id=NodeId(1),
            leader_epoch=Epoch(self.epoch),
            high_watermark=Offset(self.end_offset),
            voters=tuple(voters),
            observers=tuple(observers),
            nodes=tuple(NodeEndpoints(id=NodeId(node), endpoints=self._endpoints(node)) for node in NODES),
        )

    def _endpoints(self, node: int) -> tuple[Endpoint, ...]:
        host, _, port = self.bootstrap[node - 1].partition(":")
        return (Endpoint(listener="CONTROLLER", host=host, port=int(port)),)

    def _replica(self, node: int, directory: str, *, fetches: bool) -> Replica:
        if fetches:
            self.last_fetch_ms[node] = self.now_ms
        fetched_ms = self.last_fetch_ms.setdefault(node, self.now_ms)
        return Replica(
            key=ReplicaKey(id=NodeId(node), directory_id=DirectoryId(directory)),
            log_end_offset=Offset(self.end_offset if fetches else max(0, self.end_offset - 50)),
            last_fetch_ms=Millis(fetched_ms),
            last_caught_up_ms=Millis(fetched_ms),
        )


def merged(*sequences: Sequence[Observation]) -> list[Observation]:
    """Returns the rows of several clusters in the order of their times; the rows of a cluster keep their order."""
    return sorted((row for rows in sequences for row in rows), key=lambda row: row.observed_at_ms)
