"""Brokers whose registrations contradict each other, on a real quorum: Kafka registers them, and all are alive."""

import re
import socket

import pytest

from deploy.lab.node import BROKER
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


def test_a_broker_advertises_the_address_of_a_controller(lab: Lab, monitor: MonitoredCluster) -> None:
    _, broker = lab.brokers
    own, (controller,) = lab.node(broker).broker_endpoint, lab.controllers
    address = lab.node(controller).endpoint
    monitor.start_scenario({"broker-registrations-conflict.hold": 1})

    advertise(lab, broker, address)
    fired = monitor.wait_for("broker-registrations-conflict")
    advertise(lab, broker, own)
    monitor.wait_for("broker-registrations-conflict", "resolved")

    assert fired.summary.startswith(f"Broker {broker} and controller {controller} advertise one address, {address}. ")


def test_a_broker_advertises_a_loopback_address_beside_one_that_names_a_host(
    lab: Lab, monitor: MonitoredCluster
) -> None:
    one, other = lab.brokers
    monitor.start_scenario({"broker-registrations-conflict.hold": 1})
    own = lab.node(one).broker_endpoint

    advertise(lab, one, f"{socket.gethostname()}:{own.rpartition(':')[2]}")
    fired = monitor.wait_for("broker-registrations-conflict")
    advertise(lab, one, own)
    monitor.wait_for("broker-registrations-conflict", "resolved")

    assert fired.subject == f"address of broker {other}"
    advertised = f"{BROKER}://{lab.node(other).broker_endpoint}"
    assert fired.summary.startswith(f"Broker {other} advertises {advertised}, a loopback address")


def test_brokers_have_one_listener_with_different_protocols(lab: Lab, monitor: MonitoredCluster) -> None:
    one, other = lab.brokers
    monitor.start_scenario({"broker-registrations-conflict.roll": 1})
    text = lab.node(one).properties_file.read_text(encoding="utf-8")
    secured = text.replace(f"{BROKER}:PLAINTEXT", f"{BROKER}:SASL_PLAINTEXT")
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="a" user_a="a";'

    restart(
        lab,
        one,
        f"{secured}sasl.enabled.mechanisms=PLAIN\nsasl.mechanism.inter.broker.protocol=PLAIN\n"
        f"listener.name.{BROKER.lower()}.plain.sasl.jaas.config={login}\n",
    )
    fired = monitor.wait_for("broker-registrations-conflict", subject=f"listener {BROKER}")
    restart(lab, one, text)
    monitor.wait_for("broker-registrations-conflict", "resolved", subject=f"listener {BROKER}")

    assert fired.summary.startswith(
        f"Listener {BROKER} has different security protocols: PLAINTEXT at broker {other} and SASL_PLAINTEXT at broker "
        f"{one}. "
    )
