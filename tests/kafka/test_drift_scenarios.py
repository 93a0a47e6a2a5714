"""Rules that need a special quorum: nodes of two versions, a log without snapshots, an isolated controller.

Three controllers and two brokers of Kafka 4.2 without snapshots; the first test upgrades every node.
"""

import json
from collections.abc import Iterator

import pytest

from deploy.lab import LabError
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.lab import Lab

pytestmark = pytest.mark.lab
OLD, NEW = "4.2.2", "4.4.0"
SNAPSHOT_INTERVAL = "metadata.log.max.snapshot.interval.ms"
LONG_TIMEOUTS = dict.fromkeys(("controller.quorum.fetch.timeout.ms", "controller.quorum.request.timeout.ms"), "8000")
"""While no name resolves, a controller that closes a connection cannot open it again. With Kafka's defaults controllers
close their connections when the machine stalls for two seconds."""


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    properties = {SNAPSHOT_INTERVAL: "0", "broker.session.timeout.ms": "6000", **LONG_TIMEOUTS}
    return shared_lab(controllers=3, brokers=2, version=OLD, named=True, properties=properties)


@pytest.fixture(scope="module")
def monitor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredCluster]:
    # The monitor resolves the names itself: it observes controllers that cannot resolve each other.
    names = {endpoint.rpartition(":")[0]: "127.0.0.1" for endpoint in lab.bootstrap}
    cluster = cluster_of(lab, resolve=names, view_interval_ms=2_000)
    with run_gatherer(tmp_path_factory.mktemp("journal"), cluster) as gatherer:
        yield monitored_cluster_of(lab, gatherer)


def upgrade(lab: Lab, node: int) -> None:
    """Restarts the node with the new version and a snapshot every two seconds."""
    lab.stop(node)
    file = lab.node(node).properties_file
    file.write_text(file.read_text().replace(f"{SNAPSHOT_INTERVAL}=0", f"{SNAPSHOT_INTERVAL}=2000"))
    lab.node(node).version = NEW
    lab.start(node)
    lab.await_state(lambda state: all(one.log_end_offset > 0 for one in state.voters), what="every voter to fetch")


@pytest.mark.long
def test_nodes_of_two_versions_and_a_log_without_snapshots(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"version-drift.hold": 1, "snapshot-stale.hold": 1, "snapshot-stale.age": 12})
    leader = lab.leader
    first, *others = [*(node for node in lab.controllers if node != leader), *lab.brokers, leader]

    no_snapshot = monitor.wait_for("snapshot-stale")
    upgrade(lab, first)
    two_versions = monitor.wait_for("version-drift", subject="nodes")
    for node in others:
        upgrade(lab, node)
    monitor.wait_for("version-drift", "resolved", subject="nodes")
    monitor.wait_for("snapshot-stale", "resolved")

    assert (no_snapshot.severity, no_snapshot.evidence["leader"], no_snapshot.evidence["snapshot_end_offset"]) == (
        "warning",
        leader,
        None,
    )
    assert two_versions.severity == "warning"
    assert "up to 29, 1 other node up to 33" in two_versions.summary
    assert monitor.rules == {"version-drift", "snapshot-stale"}


@pytest.mark.long
def test_printed_command_finalizes_the_feature_level(lab: Lab, monitor: MonitoredCluster) -> None:
    lab.downgrade_feature("metadata.version=27")
    monitor.start_scenario({"version-drift.hold": 1, "version-drift.finalize": 1})

    alert = monitor.wait_for("version-drift", subject="metadata.version")
    for line in alert.remedy:
        lab.run_remedy(line)
    monitor.wait_for("version-drift", "resolved", subject="metadata.version")

    assert alert.severity == "info"
    assert (alert.evidence["finalized_level"], alert.evidence["level_all_nodes_support"]) == (27, 33)
    assert any("there is no safe way back" in line for line in alert.remedy)
    with pytest.raises(LabError, match="might delete metadata information"):
        lab.downgrade_feature("metadata.version=29")
    assert monitor.machine.quorum().metadata_version == 33


@pytest.mark.long
def test_isolated_controller_reports_an_old_epoch(lab: Lab, monitor: MonitoredCluster) -> None:
    """A controller restarts after an election while no name resolves: no connection among the controllers, only ours.

    Without an election it would report the present leader: Kafka reads the leader from quorum-state, and a pre-vote
    needs no new epoch (KIP-996).
    """
    monitor.start_scenario({"views-disagree.hold": 1})
    node, _ = lab.followers
    names = [endpoint.rpartition(":")[0] for endpoint in lab.bootstrap]

    lab.stop(node)
    # The controller restarts with the epoch in its quorum-state.
    old_epoch = json.loads((lab.node(node).metadata_log / "quorum-state").read_text())["leaderEpoch"]
    # Now, before another controller resolves the name: the next leader must not have its address.
    lab.names.drop(lab.node(node).endpoint.rpartition(":")[0])
    before = lab.await_state(lambda state: state.leader_id != node, what="a leader of the two remaining controllers")
    lab.stop(before.leader_id)
    lab.start(before.leader_id)
    # A leader answers before its follower has resolved its name and fetches; a commit needs both.
    now = lab.await_state(
        lambda state: state.leader_epoch > before.leader_epoch and state.high_watermark >= 0,
        what="a new epoch with a committed record",
    )
    lab.names.drop(*names)
    lab.start(node)
    alert = monitor.wait_for("views-disagree", subject=f"controller {node}", within_s=75)
    lab.names.add(*names)
    monitor.wait_for("views-disagree", "resolved", subject=f"controller {node}")

    assert alert.severity == "warning"
    assert (alert.evidence["leader"], alert.evidence["leader_epoch"]) == (now.leader_id, now.leader_epoch)
    assert alert.evidence["epoch_it_reports"] == old_epoch
    assert monitor.rules == {"views-disagree"}
