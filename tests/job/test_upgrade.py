"""Real jobs and relays of two versions, after and beside each other, while alerts fire: each is sent once."""

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streaming.demo.job_process import JobProcessError
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_state import get_json, wait_until_evaluated
from tests.job.jobs_with_a_store import FIRED, RESOLVED, assert_notifies, assert_sent, reading_job
from tests.job.relay_job import THRESHOLDS
from tests.job.relay_process import RelayProcess
from tests.lab import Lab
from tests.postgres_server import PostgresServer, needs_postgres
from tests.sinks.server import HttpDouble
from tests.wheel import install_commit, install_wheel

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.live, pytest.mark.long, pytest.mark.timeout(3_600)]

FORMER = "523a2874"
"""The release before this version, or the commit that stands for it."""
LAB = {"properties": {"broker.session.timeout.ms": "3000"}}
SOON = {"hold": 2}


class Versions(NamedTuple):
    """The Python of each version's environment."""

    former: Path
    present: Path


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Versions:
    former = install_commit(FORMER, tmp_path_factory.mktemp("former"))
    if former is None:
        pytest.skip(f"this clone has no commit {FORMER}: it needs the whole history")
    return Versions(former / "python", install_wheel(tmp_path_factory.mktemp("present")) / "python")


@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=needs_postgres)])
def test_an_incident_its_acknowledgement_and_a_silence_go_on_in_the_next_version_and_back(
    database: str, versions: Versions, lab: Lab, webhook: HttpDouble, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # What the former version has overwritten in the journal, the present one must read again.
    lab.create_topic(database, replication=2, configs={"min.insync.replicas": "2"})
    store = {} if database == "sqlite" else {"store": request.getfixturevalue("postgres").database("upgraded").url}
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    job.write_config(
        clusters=[section("test", lab)],
        thresholds={"broker-fenced": SOON, "failure-tolerance": SOON},
        sinks=[f"jsonl:{job.jsonl}", {"webhook": {"url": webhook.url, "repeat": "never", "name": "people"}}],
        **store,
    )
    broken = lab.brokers[0], lab.followers[0]

    job.python = versions.former
    with job:
        command(job, "silence", "add", "--rule", "failure-tolerance", "--for", "2h", "--comment", "upgrade")
        lab.kill(*broken)
        eventually(lambda: assert_fires(job, "broker-fenced", "failure-tolerance"), within_s=120)
        eventually(lambda: assert_notified(webhook, "firing"), within_s=60)
        command(job, "ack", "broker-fenced", "--by", "Ana")
        # Not 0: a controller is down.
        checks = json.loads(command(job, "doctor", "--json", python=versions.present, codes=(1, 2)))["checks"]
        assert ("checkpoint", "ok") in {(check["check"], check["verdict"]) for check in checks}

    job.python = versions.present
    with job:
        eventually(lambda: assert_fires(job, "broker-fenced", "partitions-under-min-isr"), within_s=180)
        assert_goes_on(job, webhook)

    job.python = versions.former
    try:
        with job:
            assert_goes_on(job, webhook)
    except JobProcessError as ended:
        assert_refused(job, ended)

    job.python = versions.present
    with job:
        assert_goes_on(job, webhook)
        lab.start(*broken)
        eventually(lambda: assert_notified(webhook, "firing", "resolved"), within_s=180)
        wait_until_evaluated(job, after_s=10)
    assert_notified(webhook, "firing", "resolved")


def command(job: ConfiguredJob, *words: str, python: Path | None = None, codes: tuple[int, ...] = (0,)) -> str:
    """Runs a command, by default of the job's version, with the job's configuration; returns what it prints."""
    arguments = [str(python or job.python), "-m", "streaming", *words, "--config", str(job.file)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode in codes, done.stderr
    return done.stdout


def assert_fires(job: ConfiguredJob, *rules: str) -> None:
    assert {alert.rule for alert in job.firing()} >= {*rules}


def assert_refused(job: ConfiguredJob, ended: JobProcessError) -> None:
    """Asserts that the job has ended because a newer version had upgraded the tables."""
    assert "ended with exit code 2" in str(ended)
    assert "use the kraftwatch that" in job.log.read_text().splitlines()[-1]


def assert_goes_on(job: ConfiguredJob, webhook: HttpDouble) -> None:
    """What fired before fires, people know it once, and what they have decided lasts."""
    wait_until_evaluated(job, after_s=15)
    assert_fires(job, "broker-fenced", "failure-tolerance")
    assert_notified(webhook, "firing")
    listed: Any = get_json(job, "/api/acknowledgements")
    assert [(found["rule"], found["by"]) for found in listed] == [("broker-fenced", "Ana")]
    assert json.loads(command(job, "silence", "list", "--json"))["comment"] == "upgrade"


def assert_notified(webhook: HttpDouble, *reasons: str) -> None:
    """Asserts with which reasons people were notified, texts that a version words otherwise left out."""
    bodies = [json.loads(request.body) for request in webhook.requests]
    rules = {alert["rule"] for body in bodies for alert in body["alerts"]}
    assert not rules & {"failure-tolerance", "data-contract-broken"}, "silenced, and false"
    of_broker = [body for body in bodies if "broker-fenced" in {alert["rule"] for alert in body["alerts"]}]
    assert [body["reason"] for body in of_broker if body["reason"] != "changed"] == [*reasons]


@needs_postgres
def test_jobs_and_relays_of_two_versions_work_beside_each_other(
    versions: Versions, lab: Lab, topic_lab: Lab, postgres: PostgresServer, webhook: HttpDouble, tmp_path: Path
) -> None:
    relay = RelayProcess(tmp_path / "relay", topic_lab, topic="beside", clusters=[section("test", lab)])
    relay.python, store = versions.former, postgres.database("beside").url
    relay.start()
    relay.wait_for_rows(1)
    # Both versions have these keys.
    holds = {rule: values for rule, values in THRESHOLDS.items() if rule != "alerts"}
    former, present = (
        reading_job(lab, relay, webhook, tmp_path / name, store, thresholds=holds) for name in Versions._fields
    )
    former.python, present.python = versions
    try:
        # An older relay, an older active job, and a newer one, which takes over while the alert fires.
        former.start()
        present.start()
        eventually(lambda: assert_notifies(former, present), within_s=60)
        lab.pause(*lab.controllers[:2])
        sent = [("/former", *FIRED)]
        eventually(lambda: assert_sent(webhook, sent), within_s=90)
        former.stop()
        eventually(lambda: assert_notifies(present), within_s=60)
        wait_until_evaluated(present, after_s=10)

        # A newer relay.
        relay.stop()
        relay.python = versions.present
        relay.start()
        lab.resume(*lab.controllers[:2])
        sent.append(("/present", *RESOLVED))
        eventually(lambda: assert_sent(webhook, sent), within_s=120)

        # The older job takes over, if it knows the tables as the newer one has upgraded them.
        try:
            former.start()
        except JobProcessError as ended:
            assert_refused(former, ended)
            return
        eventually(lambda: assert_notifies(present, former), within_s=60)
        present.stop()
        eventually(lambda: assert_notifies(former), within_s=60)
        lab.pause(*lab.controllers[:2])
        sent.append(("/former", *FIRED))
        eventually(lambda: assert_sent(webhook, sent), within_s=90)
        lab.resume(*lab.controllers[:2])
        sent.append(("/former", *RESOLVED))
        eventually(lambda: assert_sent(webhook, sent), within_s=120)
    finally:
        for process in (former, present, relay):
            process.stop()
