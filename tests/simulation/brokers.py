"""Simulated brokers: observers that fetch the metadata log from the active controller (KIP-500)."""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.model.identifiers import DirectoryId, NodeId, ReplicaKey
from tests.simulation.controller import SimulatedController
from tests.simulation.oracle import Oracle
from tests.simulation.replica import ReplicaProgress


@dataclass(slots=True)
class SimulatedBroker:
    """A broker by its node id. It sends heartbeats while it is not fenced, whether it fetches or not."""

    id: int
    fetches: bool = True
    applies: bool = True
    """False: it fetches, and always the same offset."""

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(id=NodeId(self.id), directory_id=DirectoryId(f"broker{self.id}"))


def fetch_as_brokers(
    brokers: Iterable[SimulatedBroker], now_ms: int, leader: SimulatedController, known: Oracle
) -> None:
    """Fetches from this leader as each broker that is registered and alive."""
    clock = now_ms + leader.skew_ms
    for broker in brokers:
        registered = known.brokers.get(broker.id)
        if registered is None or registered[1] or not broker.fetches:
            continue
        held = leader.progress.get(broker.key)
        if broker.applies or held is None:
            leader.progress[broker.key] = ReplicaProgress(len(leader.log), clock, clock)
        else:
            held.fetched_at_ms = clock
