"""Nodes whose process.roles changed, on a real quorum."""

from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]


def test_registrations_are_left_over_when_nodes_of_both_roles_become_controllers(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=0, combined=3, brokers=2)
    first, second = quorum.followers
    quorum.create_topic("held", assignment=[[first, 101]])
    with monitor_cluster(quorum, tmp_path) as monitor:
        # A node is asked for its roles every 30 s. The default hold is five minutes.
        monitor.start_scenario({"broker-fenced.hold": 45, "partitions-offline.hold": 1})
        for node in (first, second, quorum.leader):
            become_controller(quorum, node)
        alerts = {
            node: monitor.wait_for("broker-fenced", subject=f"broker {node}", within_s=90)
            for node in quorum.controllers
        }

        for node, alert in alerts.items():
            assert alert.severity == "warning"
            assert f"node {node} runs as a controller only; its registration as a broker is left over." in alert.summary
            assert not any("Start broker" in step for step in alert.remedy)
        # Kafka places replicas of new topics on them.
        quorum.create_topic("new", replication=5)
        assert monitor.rules == {"broker-fenced"}

        # As the remedy says before `unregister`.
        quorum.reassign({topic: [[101, 102]] for topic in ("held", "new")})
        eventually(lambda: not quorum.reassigns, within_s=30, every_s=1)
        for node in quorum.controllers:
            (unregister,) = (step for step in alerts[node].remedy if " unregister --id " in step)
            quorum.run_remedy(unregister)
            monitor.wait_for("broker-fenced", "resolved", subject=f"broker {node}")


def become_controller(quorum: Lab, node: int) -> None:
    """Restarts a node of both roles without the broker's."""
    quorum.stop(node)
    quorum.node(node).broker_port = None
    quorum.layout.configure()
    quorum.start(node)
