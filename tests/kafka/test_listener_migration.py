"""Controllers that move from PLAINTEXT to TLS as documented: three rolls, of which none is reported.

The monitor is configured for the TLS listener once all controllers have it, before the third roll closes the other
one. A monitor with the old settings reports that they are out of date, and no missing leader.
"""

from pathlib import Path

import pytest

from deploy.lab.node import CONTROLLER
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from tests.eventually import eventually
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.listener_migration import TLS, ListenerMigrationLab
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_three_rolls_to_a_tls_listener_send_no_alert_and_name_settings_that_stayed(
    version: str, tmp_path: Path
) -> None:
    with ListenerMigrationLab(tmp_path / "lab", controllers=3, brokers=1, version=version) as lab:
        former = cluster_of(lab)
        with run_gatherer(tmp_path / "former", former) as gatherer:
            outdated = monitored_cluster_of(lab, gatherer)
            outdated.wait_until_observed()
            lab.roll(CONTROLLER, TLS)
            await_no_finding(outdated)
            for node in (*lab.controllers, *lab.brokers):
                lab.roll(TLS, CONTROLLER, among=[node])
                await_no_finding(outdated)
            assert outdated.alert_lines() == []

            secured = {"security_protocol": "SSL", "ssl_cafile": str(lab.authority.file)}
            new = cluster_of(lab, bootstrap=lab.endpoints(TLS), options=secured)
            with run_gatherer(tmp_path / "new", new) as other:
                monitor = monitored_cluster_of(lab, other)
                monitor.wait_until_observed()
                for node in (*lab.controllers, *lab.brokers):
                    lab.roll(TLS, among=[node])
                    await_no_finding(monitor)

                blind = outdated.wait_for("monitor-blind", subject="quorum", within_s=60)
                assert monitor.alert_lines() == []

            assert "kraftwatch's own settings are out of date. The controllers listen at " in blind.summary
            assert blind.evidence["controllers_listen_at"] == lab.endpoints(TLS)
            assert "security_protocol: SSL for cluster" in blind.remedy[0]
            assert [line for line in outdated.alert_lines() if " monitor-blind " not in line] == []


def await_no_finding(monitor: MonitoredCluster) -> None:
    """Waits until a leader answers and no rule has a finding, whatever its hold."""
    monitor.wait_until_observed()

    def nothing_is_found() -> None:
        monitor.wait_until_observed()
        found = evaluate(Facts(monitor.machine.quorum()), monitor.monitor.settings.thresholds).findings
        assert [(one.rule, one.subject, one.summary) for one in found] == []

    eventually(nothing_is_found, within_s=30)
