"""A rolling restart of a healthy cluster with the default holds fires no alert, except for long or many elections."""

from pathlib import Path

import pytest

from rules.evaluate import RULES
from tests.job.conftest import await_fetches_of_all_voters
from tests.job.elections import rules_expected_by_elections
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = pytest.mark.lab
DEFAULTS = {
    f"{rule.id}.{one.name}": one.default
    for rule in RULES.values()
    for one in rule.thresholds
    if one.name in ("hold", "starts", "share")
}


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(properties={"broker.session.timeout.ms": "3000"})


def test_rolling_restart_fires_no_alert(lab: Lab, tmp_path: Path) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]

    with monitor_cluster(lab, tmp_path) as monitor:
        monitor.start_scenario(DEFAULTS)
        for node in (*controllers, *lab.brokers):
            lab.stop(node)
            lab.start(node)
            await_fetches_of_all_voters(lab)
        monitor.wait_until_observed()
        monitor.wait_for_quorum(lambda quorum: all(broker.alive for broker in quorum.brokers.values()))

    expected = rules_expected_by_elections(lab)
    assert [alert.rule for alert in monitor.alerts if alert.rule not in expected] == []
