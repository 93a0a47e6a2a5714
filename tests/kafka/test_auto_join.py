"""Controllers that add themselves to the voters (KIP-1186, Kafka 4.2): controller.quorum.auto.join.enable=true.

Three controllers. Each test starts with the quorum that the test before left: their order matters.
"""

from pathlib import Path

import pytest

from rules.model.identifiers import DirectoryId, NodeId, ReplicaKey
from rules.model.quorum import Quorum
from tests.kafka.conftest import MakeLab
from tests.kafka.lab_helpers import second_process
from tests.kafka.monitored_cluster import MonitoredCluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=3, brokers=0, properties={"controller.quorum.auto.join.enable": "true"})


def test_controller_with_a_new_directory_replaces_its_old_voter_without_an_alert(
    lab: Lab, monitor: MonitoredCluster
) -> None:
    monitor.start_scenario({})
    node, _ = lab.followers
    old = key_of(lab, node)
    lab.stop(node)
    lab.wipe_disk(node)
    new = key_of(lab, node)
    lab.start(node)

    monitor.wait_for_quorum(lambda quorum: new in voters_of(quorum))

    removal, addition = monitor.machine.quorum().history.voter_changes[-2:]
    assert (removal.removed, removal.added) == ((old,), ())
    assert (addition.removed, addition.added) == ((), (new,))
    assert monitor.rules == set(), "it took seconds, and needed no operator"


def test_two_processes_with_one_node_id_change_the_voter_set_again_and_again(
    lab: Lab, monitor: MonitoredCluster, tmp_path: Path
) -> None:
    monitor.start_scenario({"voter-change-stuck.hold": 5})
    node = lab.node(lab.followers[0])
    with second_process(lab, node, tmp_path) as copied:
        subject = f"controller {node.id}"
        fired = monitor.wait_for("voter-change-stuck", subject=subject, within_s=60)
    monitor.set_thresholds({"voter-change-stuck.window": 5})
    monitor.wait_for("voter-change-stuck", "resolved", subject=subject)

    assert fired.severity == "warning"
    assert fired.evidence["directories_fetching"] == sorted(f"{node.id}-{each.directory_id}" for each in (node, copied))
    assert fired.remedy[0].startswith(f"# Stop the process that should not have node.id {node.id}: ")
    lab.await_state(lambda state: len(state.voters) == 3, what="three voters")


def key_of(lab: Lab, node: int) -> ReplicaKey:
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(lab.node(node).directory_id))


def voters_of(quorum: Quorum) -> frozenset[ReplicaKey]:
    return frozenset() if quorum.committed is None else quorum.committed.keys
