"""A broker that advertises the address of another one, on a real quorum: Kafka registers it, and both are alive."""

import re

import pytest

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2)


def advertise(lab: Lab, broker: int, address: str) -> None:
    """Restarts a broker with another advertised address."""
    file = lab.node(broker).properties_file
    text = file.read_text(encoding="utf-8")
    lab.stop(broker)
    file.write_text(re.sub(r"(?m)^(advertised\.listeners=\w+://)\S+$", rf"\g<1>{address}", text), encoding="utf-8")
    lab.start(broker, wait=False)


def test_two_brokers_advertise_one_address(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other = lab.brokers
    own, address = lab.node(other).broker_endpoint, lab.node(one).broker_endpoint
    monitor.start_scenario({"broker-registrations-conflict.hold": 1})

    advertise(lab, other, address)
    fired = monitor.wait_for("broker-registrations-conflict")
    advertise(lab, other, own)
    monitor.wait_for("broker-registrations-conflict", "resolved")

    assert fired.subject == f"endpoint {address}"
    assert fired.summary.startswith(f"Brokers {one} and {other} advertise one address, {address}. ")
    assert monitor.rules == {"broker-registrations-conflict"}
