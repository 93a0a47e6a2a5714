"""Creates topics, writes records, elects leaders and waits for replicas, without starting a JVM."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.lab import LabError, kafka_requests
from deploy.lab.child_process import wait_until

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


def elect_unclean(port: int, topics: Sequence[str], *, leader: int, connect: kafka_requests.Connect) -> None:
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

    wait_until(elect, timeout_s=FENCING_TIMEOUT_S, what=f"unclean elections of {', '.join(sorted(topics))}")


def wait_for_isr(port: int, topic: str, isr: frozenset[int], *, connect: kafka_requests.Connect) -> int:
    """Waits until every partition of `topic` has exactly these in-sync replicas; returns the number of partitions.

    `port` is that of a running broker.
    """

    def poll() -> int | None:
        states = kafka_requests.partitions(port, topic, connect=connect)
        return len(states) if states and all(one.isr == isr for one in states.values()) else None

    return wait_until(poll, timeout_s=FENCING_TIMEOUT_S, what=f"in-sync replicas {sorted(isr)} of topic {topic}")
