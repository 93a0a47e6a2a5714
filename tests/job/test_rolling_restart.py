"""A rolling restart of a healthy cluster, with the default holds: nothing is alerts but what is worth knowing."""

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.job.conftest import every_voter_fetches
from tests.job.elections import worth_telling
from tests.job.job_state import wait_until_delivered

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


def test_every_node_restarted_in_turn_pages_nobody(lab: Lab, job: JobProcess) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]

    for node in (*controllers, *lab.brokers):
        lab.stop(node)
        lab.start(node)
        every_voter_fetches(lab)
    wait_until_delivered(job, after_s=20)

    true = worth_telling(lab)
    assert [(alert.rule, alert.severity) for alert in job.alerts() if alert.rule not in true] == []
