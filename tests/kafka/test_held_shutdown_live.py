"""A controlled shutdown that another broker holds, on a real quorum: that one is suspended and counts as alive."""

import signal
from pathlib import Path

import pytest

from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster, pause_nodes

pytestmark = [pytest.mark.lab, pytest.mark.live]


def test_a_controlled_shutdown_names_the_broker_that_holds_it(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=1, brokers=3, properties={"broker.session.timeout.ms": "600000"})
    first, second, third = quorum.brokers
    quorum.create_topic("orders", assignment=[[first, second, third]] * 2)
    with monitor_cluster(quorum, tmp_path / "monitor") as monitor:
        monitor.start_scenario(
            {
                "observer-lagging.hold": 3600,
                "operation-unfinished.shutting_down_for": 10,
                "operation-unfinished.hold": 1,
            }
        )
        with pause_nodes(quorum, second):
            quorum.node(first).running_process().signal(signal.SIGTERM)
            fired = monitor.wait_for("operation-unfinished", within_s=120)
        monitor.wait_for("operation-unfinished", "resolved", within_s=60)
    assert (fired.subject, fired.severity) == (f"broker {first}", "warning")
    assert f"Broker {second} does not keep up with the metadata log, and holds it up." in fired.summary
