"""A rolling restart of a healthy cluster with the default holds fires no alert, except for long or many elections."""

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.job.conftest import await_fetches_of_all_voters
from tests.job.elections import rules_expected_by_elections
from tests.job.job_state import wait_until_delivered

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


def test_rolling_restart_fires_no_alert(lab: Lab, job: JobProcess) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]

    for node in (*controllers, *lab.brokers):
        lab.stop(node)
        lab.start(node)
        await_fetches_of_all_voters(lab)
    wait_until_delivered(job, after_s=20)

    expected = rules_expected_by_elections(lab)
    assert [(alert.rule, alert.severity) for alert in job.alerts() if alert.rule not in expected] == []
