"""A follower that runs in bursts leaves the ISR of a partition and joins it again and again."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest
from confluent_kafka import Producer

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster, run_in_bursts
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]
PROPERTIES = {"broker.session.timeout.ms": "30000", "replica.lag.time.max.ms": "1500"}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2, properties=PROPERTIES)


@contextmanager
def produced_to(lab: Lab, topic: str) -> Iterator[None]:
    """A follower is only out of sync while its leader has records that it lacks."""
    producer, ended = Producer({"bootstrap.servers": ",".join(lab.broker_bootstrap), **lab.login, "acks": "1"}), Event()

    def produce() -> None:
        while not ended.wait(0.1):
            producer.produce(topic, b"value")
            producer.poll(0)

    with ThreadPoolExecutor(max_workers=1) as pool:
        producing = pool.submit(produce)
        try:
            yield
        finally:
            ended.set()
            producing.result()
            producer.flush(5)


def test_follower_in_bursts_changes_an_isr_again_and_again(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, follower = lab.brokers
    lab.create_topic("churned", assignment=[[leader, follower]])
    monitor.start_scenario({"isr-churning.hold": 60})

    with produced_to(lab, "churned"), run_in_bursts(lab, follower, runs_s=2, pauses_s=3.5):
        fired = monitor.wait_for("isr-churning", within_s=240)

    assert fired.severity == "warning"
    assert fired.evidence["brokers"] == [follower]
    assert ": churned-0. " in fired.summary
    assert "isr-churning" in monitor.rules
