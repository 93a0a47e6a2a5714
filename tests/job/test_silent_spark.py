"""Spark does not evaluate: each fault is notified nevertheless, by every rule, and none twice when Spark goes on."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import psutil
import pytest

from streaming.demo.job_process import JobProcessError
from tests.eventually import eventually
from tests.in_background import in_background
from tests.job.configured_job import ConfiguredJob, section
from tests.job.delayed_java import java_that_waits_for
from tests.job.job_processes import (
    assert_counts,
    assert_works,
    health,
    is_gatherer,
    is_java,
    is_python_of_spark,
    processes,
)
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900)]

LAB = {"controllers": 4, "brokers": 3, "named": True, "properties": {"broker.session.timeout.ms": "4000"}}
HOLD_S = 6
FAULTS = ("partitions-offline", "voter-disk-replaced", "unclean-election", "stale-voter-endpoint")
HOLDS: dict[str, Any] = {rule: {"hold": HOLD_S} for rule in FAULTS if rule != "unclean-election"} | {
    "alerts": {"clear": 1}
}
WITHIN_S = HOLD_S + 75
"""Since the fault: its hold, the minute until the understudy counts, and what Kafka takes to show it."""


@pytest.fixture(scope="module")
def job(lab: Lab, folder: Path) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="test")
    job.write_config(clusters=[section("test", lab, hosts_file=str(lab.hosts_file))], thresholds=HOLDS)
    with job:
        yield job


def engine(job: ConfiguredJob) -> str:
    return str(health(job)["engine"])


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


@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("lasts_s", [0.0, pytest.param(600.0, marks=pytest.mark.long)])
def test_a_fault_is_notified_while_spark_does_not_come_up(lasts_s: float, lab: Lab, tmp_path: Path) -> None:
    """A configuration that changes meanwhile takes effect meanwhile. So long at least there is no Spark."""
    continues, second = tmp_path / "continues", tmp_path / "second.jsonl"
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test", start_s=500 + lasts_s)
    job.environment = {"JAVA_HOME": str(java_that_waits_for(continues))}
    clusters = [section("test", lab, hosts_file=str(lab.hosts_file))]
    job.write_config(clusters=clusters, thresholds=HOLDS)
    *_, single = lab.brokers
    lab.create_topic("waiting", assignment=[[single]] * 2)

    def assert_second_is_notified() -> None:
        assert second.exists()
        assert '"partitions-offline"' in second.read_text()

    def fault() -> None:
        eventually(lambda: assert_counts(job, "understudy"), within_s=60)
        lab.kill(single)
        job.wait_for("partitions-offline", within_s=30)
        changed = {**HOLDS, "quorum-shape": {"hold": 3_600}}
        job.write_config(clusters=clusters, thresholds=changed, sinks=[f"jsonl:{job.jsonl}", f"jsonl:{second}"])
        eventually(assert_second_is_notified, within_s=30)
        eventually(lambda: assert_counts(job, "understudy"), within_s=30)
        eventually(lambda: health(job)["status"] == "waiting for spark", within_s=30)

    def then_continues(ended: Event) -> None:
        try:
            fault()
            # The time itself is the fault.
            ended.wait(lasts_s)
            assert (health(job)["status"], engine(job)) == ("waiting for spark", "understudy")
        finally:
            continues.touch()

    with in_background(then_continues):
        # It waits for the first batch, and ends with this thread.
        job.start()
    try:
        eventually(lambda: assert_counts(job, "spark"), within_s=120)
        lab.start(single)
        job.wait_for("partitions-offline", "resolved", within_s=60)
    finally:
        job.stop()
    assert [one.state for one in job.alerts() if one.rule == "partitions-offline"] == ["firing", "resolved"]


def test_a_job_whose_spark_does_not_come_up_stops(lab: Lab, tmp_path: Path) -> None:
    continues = tmp_path / "continues"
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    job.environment = {"JAVA_HOME": str(java_that_waits_for(continues))}
    job.write_config(clusters=[section("test", lab, hosts_file=str(lab.hosts_file))])

    def then_stops(_: Event) -> None:
        try:
            eventually(lambda: assert_counts(job, "understudy"), within_s=60)
            os.kill(job.pid, signal.SIGTERM)
            assert job.wait(30) == 0
        finally:
            continues.touch()

    with in_background(then_stops), pytest.raises(JobProcessError, match="the job ended with exit code 0"):
        job.start()


@pytest.mark.long
@pytest.mark.timeout(2_400)
def test_each_outage_is_notified_once_over_twenty_random_kills(lab: Lab, tmp_path: Path) -> None:
    """Of Java, Spark's Python, the gatherer or the job; Java is suspended, too, until the understudy counts."""
    chance = random.Random(81)
    *_, single = lab.brokers
    lab.create_topic("kills", assignment=[[single]] * 2)
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    job.write_config(clusters=[section("test", lab, hosts_file=str(lab.hosts_file))], thresholds=HOLDS)
    outages = 0
    with job:
        for _ in range(20):
            suspended = hit(job, chance.choice(["suspended", "job", "java", "python", "gatherer"]))
            state = "firing" if lab.node(single).running else "resolved"
            if state == "firing":
                outages += 1
                lab.kill(single)
            else:
                lab.start(single)
            awaited = (["firing", "resolved"] * outages)[: 2 * outages - (state == "firing")]
            eventually(partial(assert_notified, job, awaited), within_s=WITHIN_S + 60)
            for one in suspended:
                one.resume()
            eventually(lambda: assert_counts(job, "spark"), within_s=180)
            assert_notified(job, awaited)


def hit(job: ConfiguredJob, what: str) -> list[psutil.Process]:
    """Kills some processes of a job, or suspends those that are returned."""
    if what == "suspended":
        (java,) = processes(job, is_java)
        java.suspend()
        return [java]
    if what == "job":
        job.kill()
        job.start()
        return []
    of = {"java": is_java, "python": is_python_of_spark, "gatherer": is_gatherer}[what]
    for one in processes(job, of):
        one.kill()
    return []


def assert_notified(job: ConfiguredJob, states: list[str]) -> None:
    found = [one.state for one in job.alerts() if one.rule == "partitions-offline"]
    # An alert that says something else after a minute is recorded again.
    assert [state for at, state in enumerate(found) if found[at - 1 : at] != [state]] == states
