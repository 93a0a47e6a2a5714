"""Brokers whose registrations contradict each other, on a real quorum: Kafka registers them, and all are alive."""

import re

import pytest

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2)


def advertise(lab: Lab, broker: int, address: str) -> None:
    """Restarts a broker with another advertised address."""
    text = lab.node(broker).properties_file.read_text(encoding="utf-8")
    restart(lab, broker, re.sub(r"(?m)^(advertised\.listeners=\w+://)\S+$", rf"\g<1>{address}", text))


def move(lab: Lab, monitor: MonitoredCluster, broker: int, rack: str) -> None:
    """Restarts a broker in this rack, and waits until it serves there."""
    text = lab.node(broker).properties_file.read_text(encoding="utf-8")
    restart(lab, broker, re.sub(r"(?m)^broker\.rack=.*\n", "", text) + f"broker.rack={rack}\n")
    monitor.wait_for_quorum(
        lambda quorum: [(one.rack, one.alive) for one in quorum.brokers.values() if one.id == broker] == [(rack, True)]
    )


def restart(lab: Lab, broker: int, properties: str) -> None:
    """Restarts a broker with these properties."""
    lab.stop(broker)
    lab.node(broker).properties_file.write_text(properties, encoding="utf-8")
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


def test_racks_contradict_each_other(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other = lab.brokers
    rule, soon = "broker-registrations-conflict", {"hold": 1, "roll": 1}
    monitor.start_scenario({f"{rule}.{name}": seconds for name, seconds in soon.items()})

    move(lab, monitor, one, "a")
    lacking = monitor.wait_for(rule, subject="racks")
    move(lab, monitor, other, "b")
    monitor.wait_for(rule, "resolved", subject="racks")
    move(lab, monitor, other, "a")
    moved = monitor.wait_for(rule, subject=f"rack of broker {other}")
    move(lab, monitor, other, "b")
    monitor.wait_for(rule, "resolved", subject=f"rack of broker {other}")

    assert lacking.summary.startswith(f"Broker {other} has no rack, which 1 of 2 brokers has. ")
    assert moved.summary.startswith(f"Broker {other} has been in rack a since ")
    assert f" was in b before. Broker {one} is there too: " in moved.summary
    assert monitor.rules == {rule}
