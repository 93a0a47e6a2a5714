"""Which broker starts first, and a broker that comes back with an empty disk, on a real quorum."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.lab import kafka_requests
from deploy.lab.node import Node
from rules.alert import Alert
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.remedies.start_conditions import before_a_start
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.lab_helpers import add_log_directory, second_log_directory
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=1, brokers=2, properties={"broker.session.timeout.ms": "4000"})


def kill_one_after_the_other(lab: Lab, monitor: MonitoredCluster, *brokers: int) -> None:
    """Kills each broker when the log shows that the one before is fenced."""
    for broker in brokers:
        node = NodeId(broker)
        lab.kill(broker)
        monitor.wait_for_quorum(lambda quorum, node=node: quorum.brokers[node].fenced)  # type: ignore[misc]


def first_step(alert: Alert) -> str:
    """Returns the first step but for the one of a quorum that is younger than a minute: it may have been restored."""
    return next(step for step in alert.remedy if not step.startswith("# If the controllers were restored from copies"))


def test_the_broker_that_was_in_sync_last_is_started_first(lab: Lab, monitor: MonitoredCluster) -> None:
    """Each record is acknowledged by one replica at least; the topic allows unclean elections."""
    last, other = lab.brokers
    lab.create_topic("unclean", assignment=[[last, other]], configs={"unclean.leader.election.enable": "true"})
    lab.produce("unclean", 10)
    monitor.start_scenario({"broker-fenced.none_alive_hold": 0, "partitions-offline.hold": 300})

    kill_one_after_the_other(lab, monitor, other, last)
    fired = monitor.wait_for("broker-fenced", subject=f"broker {other}")
    monitor.wait_for("broker-fenced", subject=f"broker {last}")
    lab.start(last)
    lab.start(other)
    monitor.wait_for_quorum(lambda quorum: all(broker.alive for broker in quorum.brokers.values()))

    assert fired.severity == "critical"
    assert f" Bring broker {last} back first: it has records that broker {other} may lack. " in fired.summary
    assert first_step(fired).startswith(f"# Do not start broker {other} before broker {last} is back: ")
    elected = {node for one in monitor.machine.quorum().history.unclean for node in one.leaders}
    assert elected <= {last}, "the last leader at most"
    (state,) = kafka_requests.partitions(lab.node(last).broker_port or 0, "unclean", connect=lab.connect)
    assert state.leader_id == last


def lose_disk(lab: Lab, monitor: MonitoredCluster, broker: int, other: int, *, topics: tuple[str, str]) -> None:
    """The broker that is in sync last comes back with an empty disk. The other one's replica has 7 records of 12."""
    alone, pair = topics
    lab.create_topic(alone, assignment=[[broker]])
    lab.create_topic(pair, assignment=[[broker, other]])
    lab.produce(pair, 7)
    monitor.start_scenario({"partitions-offline.hold": 1, "broker-fenced.hold": 1})
    kill_one_after_the_other(lab, monitor, other)
    lab.produce(pair, 5)
    kill_one_after_the_other(lab, monitor, broker)
    lab.wipe_disk(broker)
    lab.start(broker)


def end_of(lab: Lab, topic: str, partition: int = 0) -> int:
    """Returns how many records the leader of a topic's partition has."""
    consumer = Consumer({"bootstrap.servers": ",".join(lab.running_brokers), "group.id": "ends", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)[1])
    finally:
        consumer.close()


def test_steps_after_a_lost_disk_save_what_the_other_replica_has(lab: Lab, monitor: MonitoredCluster) -> None:
    broker, other = lab.brokers
    lose_disk(lab, monitor, broker, other, topics=("saved-alone", "saved"))

    fired = monitor.wait_for("broker-disk-replaced")
    before_other_starts = before_a_start(Facts(monitor.machine.quorum()), [NodeId(other)])
    lab.stop(broker)
    lab.start(other)

    def elect() -> None:
        port = lab.node(other).broker_port or 0
        kafka_requests.elect_unclean(port, {("saved", 0)}, connect=lab.connect)
        (state,) = kafka_requests.partitions(port, "saved", connect=lab.connect)
        assert state.leader_id == other

    eventually(elect, within_s=30)
    assert end_of(lab, "saved") == 7
    lab.start(broker)
    monitor.wait_for_quorum(lambda quorum: all(one.alive for one in quorum.brokers.values()))
    assert end_of(lab, "saved") == 7

    assert (fired.subject, fired.severity) == (f"broker {broker}", "critical")
    assert {"saved-alone-0", "saved-0"} <= {*fired.evidence["examples"]}  # type: ignore[misc]
    first = f"# Do not start or restart broker {other} before you have copied "
    assert first_step(fired).startswith(first)
    assert "saved-0" in first_step(fired)
    stopped = f"# Do not start or restart broker {other} before broker {broker} is stopped: "
    assert before_other_starts[0] == fired.remedy[0], "every alert that starts it says so"
    assert all(step.startswith(stopped) for step in before_other_starts[1:])
    assert any(f"stop broker {broker}" in step for step in fired.remedy)
    assert (
        f"# If the disk is lost, start broker {other} while broker {broker} is stopped, then elect another replica of "
        "these partitions, and of no other, " in "\n".join(fired.remedy)
    )


@pytest.mark.parametrize("elr", [True, False], ids=["elr", "no-elr"])
def test_lost_disk_stays_critical_when_the_empty_broker_leads(lab: Lab, monitor: MonitoredCluster, elr: bool) -> None:
    broker, other = lab.brokers
    if not elr:
        lab.downgrade_feature("eligible.leader.replicas.version=0")
    alone, topic = f"alone-{elr}", f"pair-{elr}"
    lose_disk(lab, monitor, broker, other, topics=(alone, topic))

    monitor.wait_for("partitions-offline")
    # It leads once any broker is unfenced. The other replica truncates its log.
    lab.start(other)
    monitor.wait_for("partitions-offline", "resolved")
    monitor.wait_for_quorum(lambda quorum: all(one.alive for one in quorum.brokers.values()))

    assert monitor.wait_for("broker-disk-replaced").severity == "critical"
    assert end_of(lab, topic) == 0
    # With ELR (KIP-966) it is the last known leader, of which not only records that were not flushed are lost.
    unclean = {each.subject: each.severity for each in monitor.alerts if each.rule == "unclean-election"}
    found = {unclean.get(f"topic {each}") for each in (alone, topic)}
    assert found == ({"critical"} if elr else {None})


def test_one_of_two_disks_is_replaced(lab: Lab, monitor: MonitoredCluster) -> None:
    """After a clean shutdown the broker reports its new directory before it registers."""
    broker, _ = lab.brokers
    second = add_log_directory(lab, broker)
    lab.create_topic("both", assignment=[[broker]] * 4)
    lab.produce("both", 40)
    monitor.start_scenario({"partitions-offline.hold": 1})

    former, lost = second.directory_id, len([*second.data.glob("both-*")])
    lab.stop(broker)
    shutil.rmtree(second.data)
    second_log_directory(lab.node(broker))
    lab.start(broker)
    monitor.wait_for_quorum(lambda quorum: any(one.topic == "both" for one in quorum.history.emptied))

    (emptied,) = (one for one in monitor.machine.quorum().history.emptied if one.topic == "both")
    assert (emptied.partitions, emptied.lost) == (lost, (former,))
    assert monitor.wait_for("broker-disk-replaced").severity == "critical"


def lose_one_of_two_disks(
    lab: Lab, monitor: MonitoredCluster, second: Node, broker: int, other: int, topic: str
) -> tuple[Path, dict[int, int], dict[int, int]]:
    """The second disk of a broker is replaced, whose replicas alone have all records of a topic with four partitions.

    Returns where the former disk is, and how many records of each partition the other broker has, and both had.
    """
    lab.create_topic(topic, assignment=[[broker, other]] * 4)
    lab.produce(topic, 40)
    behind = {partition: end_of(lab, topic, partition) for partition in range(4)}
    monitor.start_scenario({"partitions-offline.hold": 1, "broker-fenced.hold": 1})
    kill_one_after_the_other(lab, monitor, other)
    lab.produce(topic, 100)
    whole = {partition: end_of(lab, topic, partition) for partition in range(4)}
    kill_one_after_the_other(lab, monitor, broker)
    former = lab.directory / f"former-{topic}"
    shutil.move(second.data, former)
    second_log_directory(lab.node(broker))
    lab.start(broker)
    return former, behind, whole


def in_order(remedy: Sequence[str], *steps: str) -> bool:
    """Returns whether a remedy has these parts of steps in this order."""
    found = [next((at for at, step in enumerate(remedy) if part in step), -1) for part in steps]
    return -1 not in found and found == sorted(found)


def test_steps_save_what_each_replica_has_when_one_of_two_disks_is_lost(lab: Lab, monitor: MonitoredCluster) -> None:
    """The broker holds the only copies in sync of some partitions, and is stopped for those of the others."""
    other, broker = lab.brokers
    second = add_log_directory(lab, broker)
    former, behind, whole = lose_one_of_two_disks(lab, monitor, second, broker, other, "one")
    lost = {int(one.name.rpartition("-")[2]) for one in former.glob("one-*")}

    fired = monitor.wait_for("broker-disk-replaced", subject=f"broker {broker}")
    assert in_order(
        fired.remedy,
        f"Do not start or restart broker {other} before you have copied",
        f"stop broker {broker}",
        f"start broker {other} while broker {broker} is stopped, then elect another replica of these partitions",
        f"Start broker {broker} when another replica leads them",
    )
    lab.stop(broker)
    lab.start(other)
    monitor.wait_for_quorum(lambda quorum: quorum.brokers[NodeId(other)].alive)

    def elect() -> None:
        port = lab.node(other).broker_port or 0
        kafka_requests.elect_unclean(port, {("one", partition) for partition in lost}, connect=lab.connect)
        states = kafka_requests.partitions(port, "one", connect=lab.connect)
        assert {one.partition_index for one in states if one.leader_id == other} == lost

    eventually(elect, within_s=30)
    lab.start(broker)
    monitor.wait_for_quorum(lambda quorum: all(one.alive for one in quorum.brokers.values()))

    saved = {partition: behind[partition] if partition in lost else whole[partition] for partition in whole}
    eventually(lambda: _assert_ends(lab, "one", saved), within_s=30)


def test_former_disk_is_mounted_after_the_other_replica_followed_the_empty_log(
    lab: Lab, monitor: MonitoredCluster
) -> None:
    """The broker with the empty log is stopped last: nobody else leads, and the disk is not truncated."""
    other, broker = lab.brokers
    second = replace(lab.node(broker), disk=lab.node(broker).folder / "second", process=None)
    former, _, whole = lose_one_of_two_disks(lab, monitor, second, broker, other, "two")
    lab.start(other)
    monitor.wait_for_quorum(lambda quorum: all(one.alive for one in quorum.brokers.values()))
    monitor.wait_for_quorum(lambda quorum: any(one.topic == "two" for one in quorum.history.emptied))

    def followed() -> None:
        states = kafka_requests.partitions(lab.node(broker).broker_port or 0, "two", connect=lab.connect)
        assert all({*one.isr_nodes} == {broker, other} for one in states)

    eventually(followed, within_s=60)
    monitor.wait_for_quorum(lambda quorum: not any(one.topic == "two" for one in quorum.recovering))

    monitor.wait_for("broker-disk-replaced", subject=f"broker {broker}")
    findings = monitor.monitor.evaluated[1].findings
    (finding,) = (one for one in findings if (one.rule, one.subject.node) == ("broker-disk-replaced", broker))
    assert in_order(
        finding.remedy, f"stop broker {other} first and broker {broker} after that", "keep aside the directories"
    )
    lab.stop(other)
    lab.stop(broker)
    shutil.rmtree(second.data)
    shutil.move(former, second.data)
    for one in second.data.glob("two-*"):
        again = lab.node(broker).data / one.name
        if again.exists():
            shutil.move(again, lab.directory / f"again-{one.name}")
    lab.start(broker)
    eventually(lambda: _assert_ends(lab, "two", whole), within_s=60)
    lab.start(other)
    monitor.wait_for_quorum(lambda quorum: all(one.alive for one in quorum.brokers.values()))
    _assert_ends(lab, "two", whole)


def _assert_ends(lab: Lab, topic: str, expected: dict[int, int]) -> None:
    assert {partition: end_of(lab, topic, partition) for partition in expected} == expected
