"""Rules that need a quorum of their own: a mixture of versions, a log without snapshots, a controller cut off.

Three controllers and two brokers of Kafka 4.2 that take no snapshots; every node is upgraded on the way.
"""

import json
from collections.abc import Iterator

import pytest

from deploy.lab.lab import Lab
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of

pytestmark = pytest.mark.lab
OLD, NEW = "4.2.1", "4.3.1"
INTERVAL = "metadata.log.max.snapshot.interval.ms"
PATIENT = dict.fromkeys(("controller.quorum.fetch.timeout.ms", "controller.quorum.request.timeout.ms"), "8000")
"""While no name resolves, controllers that give each other up do not find each other again: by Kafka's defaults they
do when the machine stands still for two seconds."""


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    properties = {INTERVAL: "0", "broker.session.timeout.ms": "6000", **PATIENT}
    return shared_lab(controllers=3, brokers=2, version=OLD, named=True, properties=properties)


@pytest.fixture(scope="module")
def monitor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredCluster]:
    # The monitor's own names: it goes on seeing controllers that cannot find each other.
    names = {endpoint.rpartition(":")[0]: "127.0.0.1" for endpoint in lab.bootstrap}
    cluster = cluster_of(lab, resolve=names, view_interval_ms=2_000)
    with run_gatherer(tmp_path_factory.mktemp("watch"), cluster) as gatherer:
        yield monitored_cluster_of(lab, gatherer)


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader").leader_id


def upgrade(lab: Lab, node: int) -> None:
    """Restarted with the new version, and with snapshots every two seconds."""
    lab.stop(node)
    file = lab.node(node).properties_file
    file.write_text(file.read_text().replace(f"{INTERVAL}=0", f"{INTERVAL}=2000"))
    lab.node(node).version = NEW
    lab.start(node)
    lab.await_state(lambda state: all(one.log_end_offset > 0 for one in state.voters), what="every voter fetching")


@pytest.mark.long
def test_nodes_of_two_versions_and_a_log_without_snapshots(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"version-drift.hold": 1, "snapshot-stale.hold": 1, "snapshot-stale.age": 12})
    leader = leader_of(lab)
    first, *others = [*(node for node in lab.controllers if node != leader), *lab.brokers, leader]

    stale = monitor.wait_for("snapshot-stale")
    upgrade(lab, first)
    mixed = monitor.wait_for("version-drift", subject="nodes")
    for node in others:
        upgrade(lab, node)
    monitor.wait_for("version-drift", "resolved", subject="nodes")
    monitor.wait_for("snapshot-stale", "resolved")

    assert (stale.severity, stale.evidence["leader"], stale.evidence["snapshot_end_offset"]) == (
        "warning",
        leader,
        None,
    )
    assert mixed.severity == "warning"
    assert "up to 29, 1 other node up to 30" in mixed.summary
    assert monitor.rules == {"version-drift", "snapshot-stale"}


@pytest.mark.long
def test_a_level_that_was_left_behind_is_finalized_by_the_printed_command(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"version-drift.hold": 1, "version-drift.finalize": 1})

    behind = monitor.wait_for("version-drift", subject="metadata.version")
    for line in behind.remedy:
        lab.run_remedy(line)
    monitor.wait_for("version-drift", "resolved", subject="metadata.version")

    assert behind.severity == "info"
    assert (behind.evidence["finalized_level"], behind.evidence["level_all_nodes_support"]) == (29, 30)
    assert monitor.machine.quorum().metadata_version == 30


def test_a_controller_that_hears_none_of_the_others(lab: Lab, monitor: MonitoredCluster) -> None:
    """It comes back after an election, while no name resolves: it dials nobody, nobody dials it, and it answers us.

    In the epoch that it knew it would look as if it followed: Kafka keeps the leader in quorum-state, and asks for
    votes without a new epoch (KIP-996).
    """
    monitor.start_scenario({"views-disagree.hold": 1})
    leader = leader_of(lab)
    node = next(one for one in lab.controllers if one != leader)
    names = [endpoint.rpartition(":")[0] for endpoint in lab.bootstrap]

    lab.stop(node)
    # What it knew when it went: its quorum-state is what it comes back with.
    known = json.loads((lab.node(node).metadata_log / "quorum-state").read_text())["leaderEpoch"]
    # Before anybody looks for it: nobody that leads later is to have its address.
    lab.names.drop(lab.node(node).endpoint.rpartition(":")[0])
    before = lab.await_state(lambda state: state.leader_id != node, what="who leads the two that are left")
    lab.stop(before.leader_id)
    lab.start(before.leader_id)
    # A leader answers before anybody fetches from it, for which its name is needed; to commit it takes both.
    now = lab.await_state(
        lambda state: state.leader_epoch > before.leader_epoch and state.high_watermark >= 0,
        what="another epoch, in which something is committed",
    )
    lab.names.drop(*names)
    lab.start(node)
    apart = monitor.wait_for("views-disagree", subject=f"controller {node}", within_s=75)
    lab.names.add(*names)
    monitor.wait_for("views-disagree", "resolved", subject=f"controller {node}")

    assert apart.severity == "warning"
    assert (apart.evidence["leader"], apart.evidence["leader_epoch"]) == (now.leader_id, now.leader_epoch)
    assert apart.evidence["epoch_it_reports"] == known
    assert monitor.rules == {"views-disagree"}


@pytest.mark.long
def test_an_unclean_election_is_news_and_resolves_by_itself(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"unclean-election.told_for": 15})

    stranded = lab.strand_recovering("orders", partitions=2)
    news = monitor.wait_for("unclean-election", subject="topic orders")
    monitor.wait_for("unclean-election", "resolved", within_s=40)

    assert news.severity == "info"
    assert news.evidence["in_sync_before_and_not_elected"] == [stranded.dead]
    assert news.evidence["elected"] == [stranded.leader]
    assert monitor.rules == {"unclean-election"}
