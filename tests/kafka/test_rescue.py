"""`kraftwatch rescue apply` on real quorums that cannot elect a leader, because all recorded endpoints have moved."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.logdir.complete_log import read_complete_log, snapshot_batches
from connectors.logdir.log_dir_files import checkpoint_name, open_files
from connectors.logdir.log_dir_reader import voter_sets_in_files
from deploy.lab.jars import kafka_jars
from rules.rescue.voter_override import initial_controllers
from streaming.query.from_log_dir import replay_log_dir
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.dead_quorum import (
    AUTHORIZER,
    every_node,
    fill_with_metadata,
    require_dead,
    snapshots,
    stop_all,
    voters,
)
from tests.kafka.election_prediction import predict_from_disks
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.metadata_image import kafka_records
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster
from tests.lab import Lab

pytestmark = pytest.mark.lab


@pytest.mark.long
def test_monitor_that_saw_the_quorum_before_the_rescue_learns_the_new_endpoints(lab: MakeLab, tmp_path: Path) -> None:
    """The rescue writes them into a snapshot only: no record of them follows in the log."""
    quorum = lab(controllers=3, brokers=1)
    with monitor_cluster(quorum, tmp_path) as before:
        before.wait_for_quorum(lambda seen: initial_controllers(seen.voters) == voters(quorum))
    stop_all(quorum)
    quorum.move_endpoint(*quorum.controllers)
    for node in every_node(quorum):
        assert rescue(quorum, node).exit_code == 0
    quorum.start(*every_node(quorum))

    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        after = MonitoredCluster(gatherer=gatherer, monitor=before.monitor)
        after.wait_for_quorum(lambda seen: initial_controllers(seen.voters) == voters(quorum))
        with open_files(quorum.node(quorum.leader).metadata_log) as files:
            sets = [(one.in_snapshot, initial_controllers(one.voters.voters)) for one in voter_sets_in_files(files)]
        assert [in_snapshot for in_snapshot, listed in sets if listed == voters(quorum)] == [True], sets


@pytest.mark.long
@pytest.mark.timeout(400)
def test_damaged_newest_snapshot_does_not_hinder_the_rescue(lab: MakeLab) -> None:
    quorum = lab(
        controllers=3,
        brokers=1,
        properties=AUTHORIZER | {"metadata.log.max.record.bytes.between.snapshots": "3000"},
    )
    fill_with_metadata(quorum)
    damaged = quorum.node(quorum.controllers[0]).metadata_log
    eventually(lambda: len(snapshots(damaged)) > 1, within_s=30)
    stop_all(quorum)
    newest = snapshots(damaged)[-1]
    newest.write_bytes(newest.read_bytes()[:-40])

    intact = [node for node in every_node(quorum) if node != quorum.controllers[0]]
    before = {node: kafka_records(quorum.node(node).metadata_log) for node in intact}
    quorum.move_endpoint(*quorum.controllers)
    assert predict_from_disks(quorum, quorum.controllers)["electable"] is False
    require_dead(quorum)
    for node in every_node(quorum):
        applied = rescue(quorum, node)
        assert applied.exit_code == 0, f"{applied.output} {applied.exception}"
        again = rescue(quorum, node)
        assert (again.exit_code, "NOTHING TO DO" in again.output) == (0, True), again.output
    assert {node: kafka_records(quorum.node(node).metadata_log) for node in intact} == before, "as Kafka reads it"

    left = leave_files(damaged)
    quorum.start(*every_node(quorum))
    state = quorum.await_leader()
    eventually(lambda: not any(path.exists() for path in left), within_s=20)
    assert {voter.id for voter in state.voters} == set(quorum.controllers)
    recorded = replay_log_dir(quorum.node(quorum.leader).data).machine.quorum().committed
    assert recorded is not None
    assert initial_controllers(recorded.voters) == voters(quorum)
    quorum.create_topic("after", replication=len(quorum.brokers))
    quorum.produce("orders", 20)


def test_kafka_drops_a_log_that_ends_in_an_earlier_epoch_than_its_newest_snapshot(lab: MakeLab) -> None:
    """Such a log is not read beyond the snapshot: a rescue would else bring back what Kafka drops."""
    quorum = lab(controllers=1, brokers=0)
    node = quorum.node(*quorum.controllers)
    quorum.stop(node.id)
    with open_files(node.metadata_log) as files:
        log = read_complete_log(files)
    end, epoch = log.end_offset - 2, log.epoch + 50
    snapshot = replace(log, end_offset=end, epoch=epoch)
    (node.metadata_log / checkpoint_name(end, epoch)).write_bytes(b"".join(snapshot_batches(snapshot, log.voters)))
    predicted = replay_log_dir(node.data)
    moved = voters(quorum).replace("127.0.0.1:", "c.new:")
    refused = kraftwatch("rescue", "apply", "--log-dir", node.data, "--initial-controllers", moved)

    quorum.start(node.id)
    quorum.await_leader()

    assert [one.reason for one in predicted.damaged] == [
        f"epoch {log.epoch} after a snapshot of epoch {epoch}: Kafka drops this log when it starts"
    ]
    assert "rescue the other nodes" in str(refused.exception)
    assert [path.name for path in sorted(node.metadata_log.glob("*.log"))] == [f"{end:020d}.log"]


def leave_files(partition: Path) -> list[Path]:
    """Writes what a killed rescue or a killed Kafka leaves in the partition's folder."""
    names = (
        f"{90_000:020d}-{9:010d}{suffix}"
        for suffix in (".checkpoint.part", "-7.checkpoint.part", ".checkpoint.deleted")
    )
    left = [partition / name for name in names]
    for path in left:
        path.write_bytes(b"left")
    return left


def rescue(quorum: Lab, node: int) -> Result:
    """Writes the new endpoints into a node; Kafka's own reader checks too."""
    wanted = ("--initial-controllers", voters(quorum), "--yes", "--kafka-home", str(kafka_jars(quorum.version)))
    return kraftwatch("rescue", "apply", "--log-dir", str(quorum.node(node).data), *wanted)
