"""A new controller's disk is formatted with --standalone and the cluster id of a cluster: two quorums answer.

Three controllers and a broker; kraftwatch follows one quorum and does not mix in what the other one answers. And three
controllers of which each was formatted so.
"""

import json
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from deploy.lab.kafka_requests import QuorumState
from rules.alert import AlertState
from rules.model.monitoring import Reason
from tests.cli import program
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(400)]


def test_both_quorums_are_named_and_never_mixed(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=1)
    state, voters = quorum.await_leader(), quorum.controllers
    leader, epoch = state.leader_id, state.leader_epoch
    wrong = quorum.layout.add_controller()
    # The monitor asks the wrong controller first.
    addresses = [wrong.endpoint, *(quorum.node(node).endpoint for node in voters)]
    cluster = cluster_of(quorum, bootstrap=addresses, view_interval_ms=2_000)
    with run_gatherer(tmp_path, cluster) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        # Views keep their hold: after a restart of the gatherer they may disagree for a minute, before it is known that
        # the other leader has other voters.
        monitor.start_scenario({"two-quorums.hold": 1})
        options = ["--config", str(wrong.properties_file), "--cluster-id", quorum.cluster_id, "--standalone"]
        quorum.jvm.tool("kafka-storage", ["format", *options])
        quorum.start(wrong.id)

        alert = monitor.wait_for("two-quorums", within_s=90)

        assert (alert.severity, alert.subject) == ("critical", "quorum")
        assert alert.evidence["quorums"] == [
            {
                "leader": leader,
                "leader_epoch": epoch,
                "voters": [f"{node}-{quorum.node(node).directory_id}" for node in voters],
                "followed": True,
            },
            {
                "leader": wrong.id,
                "leader_epoch": 1,
                "voters": [f"{wrong.id}-{wrong.directory_id}"],
                "followed": False,
                "endpoint": wrong.endpoint,
            },
        ]
        require_one_history(quorum, monitor, voters)

        # The epoch of the second quorum overtakes that of the first one, in which there is an election.
        while epoch_at(monitor, wrong.endpoint) <= (monitor.machine.quorum().leader_epoch or 0) + 1:
            restart(quorum, wrong.id)
            monitor.wait_until_observed()
        restart(quorum, leader)
        require_one_history(quorum, monitor, voters)

    with run_gatherer(tmp_path, cluster) as gatherer:
        after = MonitoredCluster(gatherer=gatherer, monitor=monitor.monitor, alerts=monitor.alerts)
        after.wait_until_observed()
        require_one_history(quorum, after, voters)
        after.wait_for("two-quorums")

        quorum.stop(wrong.id)
        shutil.rmtree(wrong.data)
        (command,) = (step for step in alert.remedy if step.startswith("kafka-storage.sh format"))
        quorum.run_remedy(command, node_properties=wrong.properties_file)
        quorum.start(wrong.id)
        after.wait_for("two-quorums", "resolved", within_s=60)

        assert {"raft-invariant-broken", "committed-metadata-lost"}.isdisjoint(after.rules)


def restart(quorum: Lab, node: int) -> None:
    quorum.stop(node)
    quorum.start(node)


def epoch_at(monitor: MonitoredCluster, endpoint: str) -> int:
    """Returns the epoch that the leader of the second quorum last reported."""
    return monitor.machine.quorum().leader_views[endpoint].leader_epoch or 0


def require_one_history(quorum: Lab, monitor: MonitoredCluster, voters: Collection[int]) -> None:
    """What is committed in the quorum is read, and nothing of the other one."""
    topic = f"topic-{len(monitor.alerts)}-{monitor.machine.quorum().last_offset}"
    monitor.wait_until_observed()
    quorum.create_topic(topic)
    before = monitor.machine.quorum().last_offset or 0
    monitor.wait_for_quorum(lambda seen: (seen.last_offset or 0) > before + 1)
    seen = monitor.machine.quorum()
    assert seen.poll is not None
    assert seen.poll.leader_id in voters
    assert [each.reason for each in seen.failures if each.reason is Reason.METADATA_LOST] == []
    assert seen.invariant_violations == ()


class StandaloneLab(Lab):
    """Each controller is formatted with --standalone, and all with one cluster id."""

    def _format_all(self) -> None:
        for node in self.layout.controllers:
            options = ["--config", str(node.properties_file), "--cluster-id", self.cluster_id, "--standalone"]
            self.jvm.tool("kafka-storage", ["format", *options])

    def _is_complete(self, state: QuorumState) -> bool:
        return bool(state.voters)


@pytest.mark.usefixtures("kafka_jars")
def test_three_quorums_of_one_voter_each_are_one_finding_and_one_history(tmp_path: Path) -> None:
    with StandaloneLab(tmp_path / "lab", controllers=3, brokers=0) as lab:
        require_three_quorums(lab)
        with run_gatherer(tmp_path, cluster_of(lab, view_interval_ms=2_000)) as gatherer:
            monitor = monitored_cluster_of(lab, gatherer)
            alert = monitor.wait_for("two-quorums", within_s=60)
            assert alert.summary.startswith("3 quorums of one voter each, {")
            followed = monitor.machine.quorum().leader_id

            # Another epoch at each of the controllers, one after the other.
            for node in (3, 3, 1, 1, 1, 2):
                restart(lab, node)
            monitor.wait_until_observed()
            require_three_quorums(lab)

            assert monitor.machine.quorum().leader_id == followed
            assert {"raft-invariant-broken", "committed-metadata-lost", "views-disagree"}.isdisjoint(monitor.rules)
            assert [each.state for each in monitor.alerts if each.rule == "two-quorums"] == [AlertState.FIRING]


def require_three_quorums(lab: Lab) -> None:
    """One query finds them, whichever controller answers first."""

    def one_finding() -> None:
        cluster = f"a={','.join(lab.bootstrap)}"
        checked = json.loads(program.kraftwatch("check", "--cluster", cluster, "--json").stdout)
        found = {each["rule"]: each["summary"] for each in checked["findings"] if each["severity"] == "critical"}
        assert found.keys() == {"two-quorums"}
        assert found["two-quorums"].startswith("3 quorums of one voter each, {")

    eventually(one_finding, within_s=30)
