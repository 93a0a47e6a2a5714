"""Creates topics, writes records, elects leaders and waits for replicas, without starting a JVM.

`leave_partitions_recovering` leaves partitions in RECOVERING after an unclean leader election (KIP-704).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.lab import LabError, kafka_requests
from deploy.lab.child_process import wait_until
from deploy.lab.node import Node

REQUEST_TIMEOUT_S = 30.0
FENCING_TIMEOUT_S = 120.0
"""How long the fencing of a killed broker may take: broker.session.timeout.ms (9 s by default) and a margin."""

Login: TypeAlias = Mapping[str, str | int]
"""librdkafka's security settings; empty for a quorum without login."""


def _client(bootstrap: Sequence[str], login: Login) -> dict[str, str | int]:
    # log_level 0: librdkafka would log an error to stderr for each broker that a test has stopped.
    return {"bootstrap.servers": ",".join(bootstrap), "log_level": 0, "client.id": "kraftwatch-lab", **login}


def create(
    bootstrap: Sequence[str],
    name: str,
    *,
    partitions: int,
    replication: int,
    configs: Mapping[str, str],
    assignment: Sequence[Sequence[int]] | None,
    login: Login,
) -> None:
    """Creates a topic; `assignment` lists the replicas of each partition and overrides both numbers."""
    replicas = {"replica_assignment": [list(ids) for ids in assignment]} if assignment else {}
    count = {"num_partitions": len(assignment)} if assignment else {"num_partitions": partitions}
    factor = {} if assignment else {"replication_factor": replication}
    topic = NewTopic(name, config=dict(configs), **count, **factor, **replicas)
    admin = AdminClient(_client(bootstrap, login))  # a variable, because requests end when the client is deleted
    try:
        admin.create_topics([topic], operation_timeout=REQUEST_TIMEOUT_S)[name].result(REQUEST_TIMEOUT_S + 5)
    except (KafkaException, TimeoutError) as error:
        raise LabError(f"could not create topic {name}: {error}") from error


def produce(bootstrap: Sequence[str], topic: str, count: int, *, login: Login) -> None:
    """Writes `count` records with acks=all to all partitions and waits until all are acknowledged."""
    errors: list[str] = []

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            errors.append(str(error))

    timeout_ms = int(REQUEST_TIMEOUT_S * 1000)
    producer = Producer(_client(bootstrap, login) | {"acks": "all", "message.timeout.ms": timeout_ms})
    for number in range(count):
        producer.produce(topic, key=str(number), value=f"record {number}", on_delivery=on_delivery)
        producer.poll(0)
    unsent = producer.flush(REQUEST_TIMEOUT_S + 5)
    if errors or unsent:
        failed = len(errors) + unsent
        raise LabError(f"{failed} of {count} records to topic {topic} failed: {(errors or ['timeout'])[0]}")


def elect_unclean(
    port: int, topics: Sequence[str], *, leader: int, timeout_s: float, connect: kafka_requests.Connect
) -> None:
    """Elects this broker, which listens on `port`, uncleanly as the leader of all partitions of these topics.

    Repeats the request until the broker leads all of them, and ignores the responses: Kafka answers "election not
    needed" while the previous leader is not fenced yet, and also after an election whose response was lost.

    Raises:
        LabError: a partition was not elected in time.
    """

    def elect() -> bool:
        states = {name: kafka_requests.partitions(port, name, connect=connect) for name in topics}
        others = {(name, number) for name in topics for number, one in states[name].items() if one.leader != leader}
        if others:
            kafka_requests.elect_unclean(port, others, connect=connect)
        return all(states.values()) and not others

    wait_until(elect, timeout_s=timeout_s, what=f"unclean elections of {', '.join(sorted(topics))}")


def wait_for_isr(
    port: int, topic: str, isr: frozenset[int], *, timeout_s: float, connect: kafka_requests.Connect
) -> int:
    """Waits until every partition of `topic` has exactly these in-sync replicas; returns the number of partitions.

    `port` is that of a running broker.
    """

    def poll() -> int | None:
        states = kafka_requests.partitions(port, topic, connect=connect)
        return len(states) if states and all(one.isr == isr for one in states.values()) else None

    return wait_until(poll, timeout_s=timeout_s, what=f"in-sync replicas {sorted(isr)} of topic {topic}")


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
    elect_unclean(_port(lab, follower), names, leader=follower, timeout_s=FENCING_TIMEOUT_S, connect=lab.connect)
    for name in names:
        _wait_for_isr(lab, follower, name, {follower})
    return UncleanPartitions(topics=tuple(names), leader=follower, killed_broker=leader)


def _wait_for_isr(lab: BrokerControl, broker: int, topic: str, isr: set[int]) -> int:
    """Waits until this broker reports these in-sync replicas; returns the number of partitions."""
    return wait_for_isr(_port(lab, broker), topic, frozenset(isr), timeout_s=FENCING_TIMEOUT_S, connect=lab.connect)


def _port(lab: BrokerControl, broker: int) -> int:
    port = lab.node(broker).broker_port
    assert port is not None
    return port
