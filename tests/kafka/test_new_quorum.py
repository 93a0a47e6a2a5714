"""All controllers are formatted again, or restored from older copies, while their brokers have the newer log."""

import shutil
from pathlib import Path

import pytest

from deploy.lab.node import format_disk, new_uuid
from rules.model.identifiers import NodeId
from rules.remedies.start_conditions import before_a_start
from rules.remedies.step import Act, Step
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.metadata_image import kafka_records
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]
KNOWN_MS = 75_000
"""How long the cluster must be known before its log is certain to be younger."""


def test_a_quorum_that_was_formatted_again_is_told_from_a_loss_and_its_brokers_end(
    lab: MakeLab, tmp_path: Path
) -> None:
    quorum = lab(controllers=3, brokers=1)
    quorum.create_topic("orders", partitions=3)
    (broker,) = quorum.brokers

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({})
        began_ms = monitor.machine.now_ms
        monitor.wait_for_quorum(lambda now: now.now_ms - began_ms > KNOWN_MS, within_s=60)
        format_all_again(quorum)
        fired = monitor.wait_for("committed-metadata-lost")
        eventually(lambda: not quorum.node(broker).running, within_s=30)
        monitor.wait_for_quorum(
            lambda now: any(each.log is not None and each.log.begins_timestamp_ms for each in now.leader_views.values())
        )
        (now,) = [one for one in monitor.monitor.evaluation().findings if one.rule == "committed-metadata-lost"]
        rules = monitor.rules

    assert fired.severity == "critical"
    assert now.summary.startswith("The quorum was formatted again with the old cluster id: its metadata log began at ")
    assert "stop every broker first" in fired.remedy[0].lower()
    assert now.remedy[0].startswith("# Stop every broker first and start none")
    assert "two-quorums" not in rules
    log = quorum.node(broker).log_file.read_text(encoding="utf-8")
    # Its log is longer than the new one, or another node leads in the same epoch: Kafka ends the process in both cases.
    assert "Encountered fatal fault: Unexpected error in raft IO thread" in log


def test_restored_controllers_use_an_epoch_again_and_the_broker_that_begins_again_has_their_log(
    lab: MakeLab, tmp_path: Path
) -> None:
    """The broker's log is moved away before it starts, as the step says: with it, Kafka mixes both (4.4.0)."""
    quorum = lab(controllers=3, brokers=1)
    (broker,) = quorum.brokers
    nodes = [quorum.node(one) for one in quorum.controllers]

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({})
        quorum.kill(*quorum.controllers)
        for node in nodes:
            shutil.copytree(node.data, tmp_path / f"old-{node.id}")
        quorum.start(*quorum.controllers)
        epoch = quorum.await_state(lambda state: state.leader_id is not None, what="a leader").leader_epoch
        quorum.create_topic("later", partitions=3)
        created = quorum.await_state(lambda _: True, what="a leader").high_watermark
        monitor.wait_for_quorum(lambda _: monitor.machine.log.position > created)
        quorum.kill(*quorum.controllers)
        for node in nodes:
            shutil.rmtree(node.data)
            shutil.copytree(tmp_path / f"old-{node.id}", node.data)
        quorum.start(*quorum.controllers)
        fired = monitor.wait_for("committed-metadata-lost", within_s=90)
        eventually(lambda: not quorum.node(broker).running, within_s=60)
        before = before_a_start(monitor.monitor.evaluated[0], [NodeId(broker)])
        assert quorum.state is not None
        again = quorum.state.leader_epoch

        shutil.move(quorum.node(broker).metadata_log, tmp_path / "moved")
        quorum.start(broker)
        monitor.wait_for_quorum(lambda now: broker in now.brokers and now.brokers[NodeId(broker)].alive, within_s=60)

    assert again <= epoch, "an epoch is used twice"
    assert fired.severity == "critical"
    awaited = {until[:2] for step in before if isinstance(step, Step) for until in step.plan.until}
    assert {(Act.COPY, None), (Act.MOVE, broker)} <= awaited, before
    ours, theirs = kafka_records(quorum.node(broker).metadata_log), kafka_records(nodes[0].metadata_log)
    assert not [one for one in ours if '"later"' in one]
    assert ours[: len(theirs)] == theirs[: len(ours)]


def format_all_again(quorum: Lab) -> None:
    """Kills all controllers, formats their disks with the same cluster id and new directory ids, and starts them."""
    quorum.kill(*quorum.controllers)
    nodes = [quorum.node(one) for one in quorum.controllers]
    initial = [f"{node.id}@{node.endpoint}:{new_uuid()}" for node in nodes]
    for node in nodes:
        shutil.rmtree(node.data)
        format_disk(quorum.jvm, node, quorum.cluster_id, initial=initial)
    quorum.start(*quorum.controllers, wait=False)
