"""Leaves partitions in RECOVERING after an unclean leader election (KIP-704)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from deploy.lab import kafka_requests, topics
from deploy.lab.lab_errors import LabError
from deploy.lab.node import Node

FENCING_TIMEOUT_S = 120.0
"""How long the fencing of a killed broker may take: broker.session.timeout.ms (9 s by default) and a margin."""


class BrokerControl(Protocol):
    """The part of a lab that an unclean election needs."""

    @property
    def brokers(self) -> list[int]:
        """Node ids with the broker role, running or not."""

    @property
    def connect(self) -> kafka_requests.Connect:
        """Opens a connection to a node."""

    def node(self, id_: int, /) -> Node:
        """Returns one node."""

    def start(self, *ids: int) -> None:
        """Starts nodes and waits until they are unfenced."""

    def kill(self, *ids: int) -> None:
        """Sends SIGKILL and waits for the end."""

    def create_topic(self, name: str, *, assignment: Sequence[Sequence[int]]) -> None:
        """Creates a topic with these replicas for each partition."""

    def produce(self, topic: str, count: int, /) -> None:
        """Writes records with acks=all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanPartitions:
    """Topics in RECOVERING, the broker that leads them now, and the killed broker that has the lost records."""

    topics: tuple[str, ...]
    leader: int
    killed_broker: int


def leave_partitions_recovering(lab: BrokerControl, names: Sequence[str], *, partitions: int) -> UncleanPartitions:
    """Kills the follower, writes records, kills the leader, starts the follower and elects it uncleanly.

    Kafka 4 does not elect the follower by itself: with KIP-966 the killed leader stays the eligible one.
    """
    running = [id_ for id_ in lab.brokers if lab.node(id_).running and not lab.node(id_).is_controller]
    if len(running) < 2:
        raise LabError(f"unclean partitions need two running brokers without the controller role; running: {running}")
    leader, follower = running[:2]
    for name in names:
        if not kafka_requests.partitions(_port(lab, leader), name, connect=lab.connect):
            lab.create_topic(name, assignment=[[leader, follower]] * partitions)
            _wait_for_isr(lab, leader, name, {leader, follower})
    lab.kill(follower)
    for name in names:
        count = _wait_for_isr(lab, leader, name, {leader})
        lab.produce(name, 10 * count)
    lab.kill(leader)
    lab.start(follower)
    topics.elect_unclean(_port(lab, follower), names, leader=follower, timeout_s=FENCING_TIMEOUT_S, connect=lab.connect)
    for name in names:
        _wait_for_isr(lab, follower, name, {follower})
    return UncleanPartitions(topics=tuple(names), leader=follower, killed_broker=leader)


def _wait_for_isr(lab: BrokerControl, broker: int, topic: str, isr: set[int]) -> int:
    """Waits until this broker reports these in-sync replicas; returns the number of partitions."""
    return topics.wait_for_isr(
        _port(lab, broker), topic, frozenset(isr), timeout_s=FENCING_TIMEOUT_S, connect=lab.connect
    )


def _port(lab: BrokerControl, broker: int) -> int:
    port = lab.node(broker).broker_port
    assert port is not None
    return port
