"""Faults on a real quorum with the real job: which alerts fire and which must not; then its files and its end."""

import fnmatch
import json
import os
import re
import signal
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streaming.demo.fault import ExpectedAlert
from streaming.demo.job_process import STOP_S, JobProcess, JsonlLine
from tests.eventually import eventually
from tests.faults import ENDPOINT_MOVED, LEADER_KILLED, MAJORITY_PAUSED, OBSERVER_ADDED, injected
from tests.job.conftest import await_fetches_of_all_voters, short_thresholds
from tests.job.elections import rules_expected_by_elections
from tests.job.job_state import cluster_metrics, files_in, scrape, wait_until_delivered, wait_until_resolved
from tests.job.prometheus import running_prometheus
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]

DASHBOARD: dict[str, Any] = json.loads((Path(__file__).parents[2] / "deploy/grafana/kraftwatch.json").read_text())
WITHOUT_SAMPLES = {
    *("kraftwatch_rule_firing", "kraftwatch_unknown"),
    *("kraftwatch_election_latency_max_seconds", "kraftwatch_gather_errors_total"),
}
"""Metrics without samples while no alert fires, no result is unknown, no election was observed and nothing failed."""
SPARK_FILES = ("spark/offsets/[0-9]*", "spark/commits/[0-9]*", "spark/state/*.changelog", "spark/state/*.zip")


@pytest.fixture(scope="module", autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("no-leader", "observer-could-be-voter")


def fired_since(lab: Lab, job: JobProcess, since: int) -> list[JsonlLine]:
    """Returns the alerts that fired since line `since`, without churn that a slow machine caused."""
    churn = rules_expected_by_elections(lab) - {"no-leader"}
    return [alert for alert in job.alerts()[since:] if alert.state == "firing" and alert.rule not in churn]


def expect(job: JobProcess, expected: ExpectedAlert, *, since: int) -> JsonlLine:
    """Waits until this alert fires, and returns it; its severity and text are as expected."""
    alert = job.wait_for(expected.rule, subject=expected.subject, since=since)
    summary = str(alert.line["summary"])
    assert [*expected.problems(severity=alert.severity, summary=summary, remedy=alert.remedy)] == []
    return alert


def test_metrics_agree_with_the_tool_of_kafka(lab: Lab, job: JobProcess) -> None:
    def metrics_agree() -> None:
        state = lab.await_state(lambda state: True, what="a leader")
        wait_until_delivered(job)
        samples = scrape(job)
        value = cluster_metrics(samples).get
        assert (value("current_leader"), value("current_epoch")) == (state.leader_id, state.leader_epoch)
        assert (value("number_of_voters"), value("number_of_observers")) == (len(state.voter_ids), len(lab.brokers))
        assert value("high_watermark", -1) >= state.high_watermark
        ends = {dict(labels)["node_id"] for name, labels in samples if name == "log_end_offset"}
        assert ends == {str(node) for node in (*lab.controllers, *lab.brokers)}
        assert value("append_records_rate", 0) > 0, "the leader appends NoOp records"
        assert (value("failure_tolerance"), value("uncommitted_voter_change"), value("log_lag_records")) == (1, 0, 0)

    eventually(metrics_agree, within_s=60)


@pytest.mark.debian("prometheus")
def test_prometheus_answers_every_dashboard_query(job: JobProcess, folder: Path) -> None:
    def every_query_has_samples() -> None:
        exprs = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
        empty = [expr for expr in exprs if not prometheus.query(expr.replace("$cluster", ".*"))]
        assert {re.findall(r"kraftwatch_\w+", expr)[0] for expr in empty} <= WITHOUT_SAMPLES
        assert prometheus.values("kraftwatch_watchdog") == [1]
        assert prometheus.values("kraftwatch_number_of_voters") == [3]
        assert prometheus.firing() == {"KraftwatchWatchdog"}

    with running_prometheus(job.address, folder / "prometheus") as prometheus:
        # A scrape that takes too long has no samples.
        eventually(every_query_has_samples, within_s=60, every_s=1)


def test_killed_leader_is_an_election_without_an_alert(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())

    def kill_leader() -> float:
        before = lab.await_state(lambda state: True, what="a leader")
        with injected(LEADER_KILLED, lab, before.leader_id):
            lab.await_state(lambda state: state.leader_epoch > before.leader_epoch, what="another leader")
        await_fetches_of_all_voters(lab)
        wait_until_delivered(job)
        # The latency is not measured if the newest record that the job had read is seconds older.
        assert "election_latency_max_seconds" in cluster_metrics(scrape(job))
        return cluster_metrics(scrape(job))["election_latency_max_seconds"]

    longest = eventually(kill_leader, within_s=120)
    assert [alert.rule for alert in fired_since(lab, job, since)] == []
    # Nothing was appended until the other voters had missed the leader and voted.
    assert longest > 0.5


def test_moved_endpoint_resolves_without_a_critical_alert(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())

    ENDPOINT_MOVED.inject(lab, ENDPOINT_MOVED.nodes(lab))
    wait_until_delivered(job)
    wait_until_resolved(job)

    assert {alert.severity for alert in fired_since(lab, job, since)} <= {"warning"}


def test_paused_majority_fires_no_leader_and_resolves(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    stopped = sorted(MAJORITY_PAUSED.nodes(lab))

    with injected(MAJORITY_PAUSED, lab, *stopped) as (no_leader,):
        alert = expect(job, no_leader, since=since)
    wait_until_resolved(job)

    # One that had answered late a moment before counts as slow for ten seconds.
    assert not [step for step in alert.remedy if step.startswith("# Start controller")], "they are not to be started"
    assert any(step.startswith(f"# Controller {node} hangs") for node in stopped for step in alert.remedy)
    assert {each.rule for each in fired_since(lab, job, since)} <= {"no-leader"}


def test_printed_commands_promote_an_observer_controller(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    (node,) = nodes = OBSERVER_ADDED.nodes(lab)
    OBSERVER_ADDED.inject(lab, nodes)

    alert = expect(job, *OBSERVER_ADDED.expected(nodes), since=since)
    OBSERVER_ADDED.end(lab, nodes, alert.remedy)
    job.wait_for("observer-could-be-voter", "resolved", subject=alert.subject, since=since)

    assert node in lab.await_state(lambda state: True, what="a leader").voter_ids
    assert {each.rule for each in fired_since(lab, job, since)} == {"observer-could-be-voter"}


def test_no_file_of_the_job_holds_a_secret_of_the_log(lab: Lab, job: JobProcess) -> None:
    lab.plant_secret("planted-secret")

    def records_are_in_the_journal() -> None:
        journal = b"".join(content for _, content in files_in(job.checkpoint / "journal"))
        assert b"my.custom.password" in journal
        assert b"planted-user" in journal

    eventually(records_are_in_the_journal, within_s=60)
    wait_until_delivered(job)

    assert [path for path, content in files_in(job.folder) if b"planted-secret" in content] == []


def test_files_of_the_checkpoint_and_of_the_jsonl_sink_are_for_the_owner_alone(job: JobProcess) -> None:
    def written() -> dict[str, int]:
        found = modes(job.checkpoint)
        # Of each writer: the gatherer, the driver, and Java for the query, for state changes and for state snapshots.
        for pattern in ("journal/*", "log/gather-stats.json", "log/spark.log", *SPARK_FILES):
            assert fnmatch.filter(found, pattern), pattern
        return found

    found = eventually(written, within_s=120)

    wider = {name: oct(mode) for name, mode in found.items() if mode & 0o077}
    assert wider == {}
    assert len(found) > 50
    assert stat.S_IMODE(job.jsonl.stat().st_mode) == 0o600


def test_sigterm_to_the_process_group_stops_without_errors(job: JobProcess) -> None:
    log_size = job.log.stat().st_size

    # As systemd does.
    os.killpg(job.pid, signal.SIGTERM)

    assert job.wait(STOP_S) == 0
    assert job.log.read_bytes()[log_size:] == b""


def modes(folder: Path) -> dict[str, int]:
    """Returns the permissions of everything in the folder, and its own as `.`."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            path = Path(parent, name)
            # Spark deletes temporary files while the job runs.
            with suppress(FileNotFoundError):
                found[str(path.relative_to(folder))] = stat.S_IMODE(path.lstat().st_mode)
    return found
