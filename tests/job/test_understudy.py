"""Spark's Java is suspended: each fault is notified nevertheless, by every rule, and none twice when Spark goes on."""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_processes import assert_works, health, is_java, processes
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900)]

LAB = {"controllers": 4, "brokers": 3, "named": True, "properties": {"broker.session.timeout.ms": "4000"}}
HOLD_S = 6
FAULTS = ("partitions-offline", "voter-disk-replaced", "unclean-election", "stale-voter-endpoint")
WITHIN_S = HOLD_S + 75
"""Since the fault: its hold, the minute until the understudy counts, and what Kafka takes to show it."""


@pytest.fixture(scope="module")
def job(lab: Lab, folder: Path) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="test")
    holds: dict[str, Any] = {rule: {"hold": HOLD_S, "clear": 1} for rule in FAULTS if rule != "unclean-election"}
    job.write_config(clusters=[section("test", lab, hosts_file=str(lab.hosts_file))], thresholds=holds)
    with job:
        yield job


def engine(job: ConfiguredJob) -> str:
    return str(health(job)["engine"])


def assert_counts(job: ConfiguredJob, name: str) -> None:
    now = health(job)
    assert (now["engine"], now["seconds_since_last_evaluation"] < 20) == (name, True), now


def test_each_fault_is_notified_once_while_java_is_suspended_and_resolves(job: ConfiguredJob, lab: Lab) -> None:
    *_, single = lab.brokers
    lab.create_topic("single", assignment=[[single]] * 2)
    replaced, lost, _ = lab.followers
    eventually(lambda: assert_counts(job, "spark"), within_s=120)

    (java,) = processes(job, is_java)
    java.suspend()
    began = time.monotonic()
    try:
        lab.kill(single)
        job.wait_for("partitions-offline", within_s=WITHIN_S)
        assert_counts(job, "understudy")
        job.wait_for("monitor-degraded", within_s=30)
        assert time.monotonic() - began < 90
        lab.start(single)
        job.wait_for("partitions-offline", "resolved", within_s=WITHIN_S)

        lab.stop(replaced)
        lab.wipe_disk(replaced)
        lab.start(replaced)
        job.wait_for("voter-disk-replaced", within_s=WITHIN_S)

        recovering = lab.leave_partitions_recovering("copied")
        job.wait_for("unclean-election", within_s=WITHIN_S)
        lab.start(recovering.killed_broker)

        name = lab.node(lost).host
        lab.names.drop(name)
        job.wait_for("stale-voter-endpoint", within_s=WITHIN_S)
        assert (health(job)["status"], engine(job)) == ("waiting for spark", "understudy")
    finally:
        java.resume()
    lab.names.add(name)
    eventually(lambda: assert_counts(job, "spark"), within_s=90)
    eventually(lambda: assert_works(job), within_s=30)
    job.wait_for("monitor-degraded", "resolved", within_s=60)
    job.wait_for("stale-voter-endpoint", "resolved", within_s=120)

    sent = Counter((one.rule, one.subject, one.state) for one in job.alerts() if one.rule in FAULTS)
    assert {about: number for about, number in sent.items() if number > 1} == {}
