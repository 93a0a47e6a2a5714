"""Rules on a real quorum: what is done to Kafka, that the rule fires, what it says, that it resolves once Kafka heals.

Five controllers and a broker. The waits of Raft are four times Kafka's defaults, so that a leader without a majority
can be looked at for twelve seconds before it resigns, and a broker that stands still for as long before it is fenced.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from deploy.lab.lab import Lab
from deploy.lab.lab_errors import LabError
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster, pause_nodes

pytestmark = pytest.mark.lab
PROPERTIES = {"broker.session.timeout.ms": "12000", "controller.quorum.fetch.timeout.ms": "8000"}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=5, brokers=1, properties=PROPERTIES)


@pytest.fixture(scope="module")
def monitor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredCluster]:
    with monitor_cluster(lab, tmp_path_factory.mktemp("watch")) as monitor:
        yield monitor


def leader_and_followers(lab: Lab) -> tuple[int, list[int]]:
    leader = lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader").leader_id
    return leader, [node for node in lab.controllers if node != leader]


def elects_one_of(lab: Lab, nodes: list[int]) -> None:
    lab.await_state(lambda state: state.leader_id in nodes, what="another leader")


def test_a_voter_falls_silent_and_then_another(lab: Lab, monitor: MonitoredCluster) -> None:
    _, (one, other, *_) = leader_and_followers(lab)
    silent = {"voter-lagging.silent": 4, "failure-tolerance.silent": 4}
    monitor.start_scenario({"voter-lagging.hold": 1, "failure-tolerance.hold": 1, **silent})

    with pause_nodes(lab, one):
        lagging = monitor.wait_for("voter-lagging", subject=f"voter {one}")
        with pause_nodes(lab, other):
            tolerating = monitor.wait_for("failure-tolerance")
    monitor.wait_for("failure-tolerance", "resolved")
    monitor.wait_for("voter-lagging", "resolved")

    assert lagging.severity == tolerating.severity == "warning"
    assert lagging.evidence["voter"] == f"{one}-{lab.node(one).directory_id}"
    assert lagging.evidence["further_failures_tolerated"] == 1
    assert lab.node(one).endpoint in lagging.remedy[0]
    assert tolerating.summary.startswith(
        "The quorum tolerates no further failure: 3 of 5 voters are in sync; 3 are needed. "
    )
    assert monitor.rules == {"voter-lagging", "failure-tolerance"}


def test_a_majority_falls_silent_and_nothing_is_committed(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, followers = leader_and_followers(lab)
    # Two seconds longer than a voter may be silent, so that a poll that comes late shows that they are.
    monitor.start_scenario(
        {"high-watermark-stalled.hold": 2, "high-watermark-stalled.still": 2, "high-watermark-stalled.silent": 1}
    )

    with pause_nodes(lab, *followers[:3]):
        fired = monitor.wait_for("high-watermark-stalled")
    monitor.wait_for("high-watermark-stalled", "resolved")

    assert fired.severity == "critical"
    assert fired.evidence["leader"] == leader
    assert fired.evidence["majority"] == 3
    assert fired.evidence["voters_in_sync"] in (1, 2), "one that goes on may look silent on a busy machine"
    assert monitor.rules == {"high-watermark-stalled"}


def test_a_removal_that_does_not_commit_and_the_even_number_it_leaves(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, (one, other, _, leaving) = leader_and_followers(lab)
    directory = lab.node(leaving).directory_id
    # The leader is asked by name: a node that is paused takes the tool's connection and never answers.
    tool = f"kafka-metadata-quorum.sh --bootstrap-controller {lab.node(leader).endpoint} remove-controller"
    # Held for longer than a voter may be silent: the tool is fast enough to be seen before those that stand still are.
    monitor.start_scenario({"voter-change-stuck.hold": 3, "voter-change-stuck.silent": 1.5})

    with ThreadPoolExecutor(max_workers=1) as pool:
        with pause_nodes(lab, one, other):
            # Three of five voters carry the quorum; of the four that are left three must, and two do.
            line = f"{tool} --controller-id {leaving} --controller-directory-id {directory}"
            removal = pool.submit(lab.run_remedy, line)
            fired = monitor.wait_for("voter-change-stuck")
        monitor.wait_for("voter-change-stuck", "resolved")
        with suppress(LabError):
            # Kafka's tool gives up after two seconds and says "timed out"; the change does not.
            removal.result()

    assert fired.evidence["removing"] == [f"{leaving}-{directory}"]
    assert fired.evidence["adding"] == []
    assert fired.evidence["majority"] == 3
    assert fired.evidence["voters_in_sync"] in (1, 2), "one that goes on may look silent on a busy machine"
    assert monitor.rules == {"voter-change-stuck"}

    lab.await_state(lambda state: leaving not in state.voter_ids, what="the four voters that are left")
    monitor.start_scenario({"quorum-shape.hold": 1})
    fired = monitor.wait_for("quorum-shape")
    lab.add_controller(leaving)
    monitor.wait_for("quorum-shape", "resolved")

    assert fired.severity == "info"
    assert (
        fired.summary
        == "The quorum has 4 voters and tolerates 1 failure. With 3 voters it would tolerate the same number."
    )
    assert monitor.rules == {"quorum-shape"}


def test_leader_after_leader_is_elected_and_nobody_restarted(lab: Lab, monitor: MonitoredCluster) -> None:
    churn = {"epoch-churn.hold": 1, "epoch-churn.elections": 2}
    monitor.start_scenario({**churn, "epoch-churn.window": 60})

    for _ in range(2):
        leader, followers = leader_and_followers(lab)
        with pause_nodes(lab, leader):
            elects_one_of(lab, followers)
    fired = monitor.wait_for("epoch-churn")
    monitor.set_thresholds({**churn, "epoch-churn.window": 5})
    monitor.wait_for("epoch-churn", "resolved")

    assert fired.evidence["elections_within_the_window"] in (2, 3), "a busy machine may elect once more"
    assert fired.evidence["controllers_started"] == []
    assert monitor.rules == {"epoch-churn"}


def test_a_broker_lives_and_does_not_fetch_the_metadata(lab: Lab, monitor: MonitoredCluster) -> None:
    (broker,) = lab.brokers
    monitor.start_scenario({"observer-lagging.hold": 0, "observer-lagging.silent": 2})

    with pause_nodes(lab, broker):
        # Its session lasts twelve seconds: until then it counts as alive.
        fired = monitor.wait_for("observer-lagging", subject=f"broker {broker}")
    monitor.wait_for("observer-lagging", "resolved")

    assert fired.summary == (
        f"Broker {broker} does not fetch the metadata log: it works with outdated metadata. "
        "It counts as alive and still leads partitions."
    )
    assert monitor.rules == {"observer-lagging"}


def test_a_broker_whose_heartbeats_are_not_heard_is_fenced(lab: Lab, monitor: MonitoredCluster) -> None:
    (broker,) = lab.brokers
    monitor.start_scenario({"broker-fenced.hold": 1})

    with pause_nodes(lab, broker):
        fired = monitor.wait_for("broker-fenced", subject=f"broker {broker}")
    monitor.wait_for("broker-fenced", "resolved")

    assert fired.severity == "warning"
    assert fired.summary == (
        f"Broker {broker} is fenced: the active controller receives no heartbeats from it. "
        "It serves no client. Brokers alive: 0 of 1 registered."
    )
    assert lab.node(broker).broker_endpoint in fired.remedy[0]
    assert monitor.rules == {"broker-fenced"}
