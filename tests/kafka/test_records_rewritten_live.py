"""What writes records of the metadata log again and again: a follower that runs in bursts, new producers."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest
from confluent_kafka import Producer
from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

from deploy.lab.kafka_requests import exchange
from tests.in_background import in_background
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster, run_in_bursts
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(400)]
_INIT_PRODUCER_ID = 4
PROPERTIES = {"broker.session.timeout.ms": "30000", "replica.lag.time.max.ms": "1500"}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2, properties=PROPERTIES)


@contextmanager
def produced_to(lab: Lab, topic: str) -> Iterator[None]:
    """A follower is only out of sync while its leader has records that it lacks."""
    producer = Producer({"bootstrap.servers": ",".join(lab.broker_bootstrap), **lab.login, "acks": "1"})

    def produce(ended: Event) -> None:
        while not ended.wait(0.1):
            producer.produce(topic, b"value")
            producer.poll(0)
        producer.flush(5)

    with in_background(produce):
        yield


def test_follower_in_bursts_changes_an_isr_again_and_again(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, follower = lab.brokers
    lab.create_topic("churned", assignment=[[leader, follower]])
    monitor.start_scenario({"records-rewritten.hold": 60})

    with produced_to(lab, "churned"), run_in_bursts(lab, follower, runs_s=2, pauses_s=3.5):
        fired = monitor.wait_for("records-rewritten", within_s=240)

    assert fired.severity == "warning"
    assert fired.evidence["brokers"] == [follower]
    assert ": churned-0. " in fired.summary
    assert "records-rewritten" in monitor.rules


@contextmanager
def new_producers(lab: Lab, broker: int) -> Iterator[None]:
    """A hundred new producers a second get their ids at a broker: InitProducerId, as an idempotent one sends it."""
    port = int(lab.broker_bootstrap[lab.brokers.index(broker)].rpartition(":")[2])
    request = InitProducerIdRequest[_INIT_PRODUCER_ID](transactional_id=None, transaction_timeout_ms=60_000)

    def initialise(ended: Event) -> None:
        with lab.connect(port) as connection:
            while not ended.wait(0.01):
                exchange(connection, request, InitProducerIdResponse, _INIT_PRODUCER_ID)

    with in_background(initialise):
        yield


def test_new_producers_without_end_use_up_blocks_of_producer_ids(lab: Lab, monitor: MonitoredCluster) -> None:
    broker = lab.brokers[0]
    monitor.start_scenario({"records-rewritten.hold": 60})

    with new_producers(lab, broker):
        fired = monitor.wait_for("records-rewritten", subject="producer ids", within_s=200)

    assert fired.severity == "warning"
    assert fired.evidence["brokers"] == [broker]
    monitor.wait_for("records-rewritten", "resolved", subject="producer ids", within_s=180)
