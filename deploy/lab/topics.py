"""Topics of the lab: made, written to, and stranded in RECOVERING. Without a JVM, which takes seconds."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from deploy.lab import kafka_requests
from deploy.lab.lab_errors import LabError
from deploy.lab.wait_until import until

REQUEST_TIMEOUT_S = 30.0


Login: TypeAlias = Mapping[str, str | int]
"""librdkafka's settings for a secured quorum; empty for another."""


def _client(bootstrap: Sequence[str], login: Login) -> dict[str, str | int]:
    # log_level 0: librdkafka would tell stderr of each broker that a scene has stopped on purpose.
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
    """Creates a topic; `assignment` lists the replicas of each partition and wins over both numbers."""
    placed = {"replica_assignment": [list(replicas) for replicas in assignment]} if assignment else {}
    counted = {"num_partitions": len(assignment)} if assignment else {"num_partitions": partitions}
    factor = {} if assignment else {"replication_factor": replication}
    topic = NewTopic(name, config=dict(configs), **counted, **factor, **placed)
    admin = AdminClient(_client(bootstrap, login))  # named, because its requests die with it
    try:
        admin.create_topics([topic], operation_timeout=REQUEST_TIMEOUT_S)[name].result(REQUEST_TIMEOUT_S + 5)
    except (KafkaException, TimeoutError) as error:
        raise LabError(f"could not create topic {name}: {error}") from error


def produce(bootstrap: Sequence[str], topic: str, count: int, *, login: Login) -> None:
    """Writes `count` records with acks=all, spread over the partitions, and waits until all are acknowledged."""
    failed: list[str] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failed.append(str(error))

    patience_ms = int(REQUEST_TIMEOUT_S * 1000)
    producer = Producer(_client(bootstrap, login) | {"acks": "all", "message.timeout.ms": patience_ms})
    for number in range(count):
        producer.produce(topic, key=str(number), value=f"record {number}", on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(REQUEST_TIMEOUT_S + 5)
    if failed or left:
        raise LabError(f"{len(failed) + left} of {count} records to topic {topic} failed: {(failed or ['timeout'])[0]}")


def elect_unclean(
    port: int, topics: Sequence[str], *, leader: int, timeout_s: float, dial: kafka_requests.Dial
) -> None:
    """An unclean election for every partition of these topics, which only this broker, on `port`, can win.

    Asked again until it leads them all. The answers are not looked at: that no election is needed is said while the
    last leader is not yet fenced, and also when the answer to an election that took place was lost.

    Raises:
        LabError: a partition could not be elected in time.
    """

    def elect() -> bool:
        seen = {name: kafka_requests.partitions(port, name, dial=dial) for name in topics}
        others = {(name, number) for name in topics for number, one in seen[name].items() if one.leader != leader}
        if others:
            kafka_requests.elect_unclean(port, others, dial=dial)
        return all(seen.values()) and not others

    until(elect, timeout_s=timeout_s, what=f"unclean elections of {', '.join(sorted(topics))}")


def wait_for_isr(port: int, topic: str, isr: frozenset[int], *, timeout_s: float, dial: kafka_requests.Dial) -> int:
    """Waits until every partition of `topic` has exactly these in-sync replicas; returns how many there are.

    `port` is that of a running broker.
    """

    def look() -> int | None:
        seen = kafka_requests.partitions(port, topic, dial=dial)
        return len(seen) if seen and all(one.isr == isr for one in seen.values()) else None

    return until(look, timeout_s=timeout_s, what=f"in-sync replicas {sorted(isr)} of topic {topic}")
