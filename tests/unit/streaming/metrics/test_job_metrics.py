"""The metrics about kraftwatch itself, and /metrics as Prometheus scrapes it."""

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from connectors.delivery.delivery_report import SinkResult
from connectors.errors import UnavailableStoreError
from connectors.gather.gatherer_stats import LoopCounts, WrittenStats, write_stats
from connectors.store.audit_results import ContractResult
from connectors.store.collection import quarantine_of
from connectors.store.database import SqliteDatabase
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.model.identifiers import Millis, Offset
from streaming.metrics.heartbeat import HeartbeatCounts
from streaming.metrics.job_metrics import CLUSTER_METRICS, OWN_METRICS, job_registry
from streaming.metrics.metric_spec import MetricSpec, family, metrics_endpoint
from streaming.metrics.relay_metrics import RELAY_METRICS
from streaming.web.server import Server
from tests.metric_page import PAGE
from tests.present import present
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.streaming.metrics.exposition import MetricsFixture, names, reader, samples

SLACK, JSONL, QUORUM = {"sink": "slack"}, {"sink": "jsonl"}, {"source": "quorum", "reason": "denied"}
CRITICAL, EVENTS = {"severity": "critical"}, {"suite": "events"}
VALUES: list[tuple[str, dict[str, str], float | None]] = [
    ("sink_pending_alerts", SLACK, 4),
    ("sink_pending_alerts", JSONL, 0),
    ("sink_failing", SLACK, 1),
    ("sink_failing", JSONL, 0),
    ("sink_silenced_alerts", SLACK, 2),
    ("sink_notifications_total", {**SLACK, "outcome": "delivered"}, 2),
    ("sink_notifications_total", {**SLACK, "outcome": "retry"}, 1),
    ("sink_notifications_total", {**JSONL, "outcome": "rejected"}, 0),
    ("alerts_firing", CRITICAL, 2),
    ("alerts_firing", {"severity": "warning"}, 0),
    ("alerts_firing", {"severity": "info"}, 0),
    ("alerts_firing", {"cluster": "never", **CRITICAL}, None),
    ("alerts_firing", {"cluster": "no longer configured", **CRITICAL}, None),
    ("rule_firing", {"rule": "no-leader", **CRITICAL}, 2),
    ("log_lag_records", {}, 100),
    ("log_lag_seconds", {}, 6),
    ("status_age_seconds", {}, 2),
    ("staleness_seconds", {}, 2),
    ("gather_errors_total", QUORUM, 7),
    ("gather_failing", {"source": "log", "reason": "denied"}, 1),
    ("gather_requests_total", {}, 90),
    ("gathered_rows_total", {}, 12),
    ("gatherer_up", {}, 1),
    ("gatherer_cpu_seconds_total", {}, 1.5),
    ("gatherer_resident_memory_bytes", {}, 1_000),
    ("audit_timestamp_seconds", {}, NOW / 1000),
    ("audit_rows", EVENTS, 500),
    ("audit_broken_rows", {**EVENTS, "contract": "every-record-decodes", "severity": "warning"}, 2),
    ("quarantined_total", {}, 3),
    ("quarantine_files", {}, 3),
    ("journal_bytes", {}, 100),
    ("watchdog", {}, 0),
    ("heartbeats_total", {"outcome": "sent"}, 3),
    ("heartbeats_total", {"outcome": "failed"}, 1),
    ("heartbeat_last_sent_timestamp_seconds", {}, NOW / 1000),
    ("config_refused", {}, 1),
    ("config_loaded_timestamp_seconds", {}, NOW / 1000),
    ("batches_total", {}, 2),
    ("batch_duration_seconds_count", {}, 2),
    ("batch_duration_seconds_bucket", {"le": "0.5"}, 1),
    ("batch_duration_seconds_bucket", {"le": "5.0"}, 2),
]
"""Of the job that `running` returns: name, labels without cluster `prod`, value; None where it is absent."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> MetricsFixture:
    """A job that is not healthy, two seconds after its second batch."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "journal").mkdir()
    for number in range(2):
        (folder / "journal" / f"{number}").write_bytes(b"x" * 50)
    quarantine_of(job_database(folder)).put({"prod-1-0": {}, "prod-2-0": {}, "lab-1-0": {}})
    cluster = {"requests_sent": 90, "busiest_second": 8, "failed_observations": {"quorum": {"denied": 7}}}
    stats = {"at_ms": NOW, "cpu_s": 1.5, "rss_bytes": 1_000, "rows": 12, "publications": 3}
    loop = {"pid": 1, "turn_at_s": 1.0, "longest_stall_s": 0.0}
    (folder / "stats.json").write_text(json.dumps({**stats, "loop": loop, "clusters": {"prod": cluster}}))

    firing = [alert(node, cluster="prod", severity=Severity.CRITICAL) for node in ("voter 1", "voter 2")]
    job = MetricsFixture(folder, ("prod", "never"), [*firing, alert(cluster="no longer configured")])
    behind = replace(
        situation("fails log denied 1"),
        high_watermark=Offset(10_000),
        last_offset=Offset(9_899),
        newest_timestamp_ms=Millis(NOW - 4_000),
        log_fetched_at_ms=NOW,
    )
    first = {"slack": SinkResult(delivered=2, pending=1), "jsonl": SinkResult(delivered=3)}
    second = {"slack": SinkResult(retry=1, pending=4, silenced=2, failing="no"), "jsonl": SinkResult()}
    job.batch(behind, sinks=first, quarantined={"prod": 2}, took_s=0.3)
    job.batch(behind, sinks=second, quarantined={"prod": 1}, took_s=4)
    result = ContractResult(
        audited_at_ms=Millis(NOW),
        suite="events",
        contract="every-record-decodes",
        severity=Severity.WARNING,
        checked_rows=500,
        broken_rows=2,
    )
    job.sources.audits.add([replace(result, audited_at_ms=Millis(NOW - 1_000), broken_rows=9)])
    job.sources.audits.add([result])
    job.config_loaded_at_ms = NOW
    job.healthy, job.heartbeats = False, HeartbeatCounts(sent=3, failed=1, last_sent_at_ms=NOW)
    job.now_ms += 2_000
    return job


@pytest.mark.parametrize(("name", "labels", "expected"), VALUES)
def test_each_metric_of_a_running_job_has_its_value(
    running: MetricsFixture, name: str, labels: dict[str, str], expected: float | None
) -> None:
    assert reader(running.samples())(name, **labels) == expected


def test_what_a_new_job_does_not_know_is_absent(tmp_path: Path) -> None:
    exported = names(MetricsFixture(tmp_path).samples())

    known = {"build_info", "watchdog", "batches_total", "cluster_configured", "gatherer_up", "quarantine_files"}
    histogram = {"batch_duration_seconds_count", "batch_duration_seconds_bucket", "quarantined_total"}
    assert not exported & ({name for name, _, _ in VALUES} - known - histogram)
    assert exported >= known


def test_statistics_of_a_gatherer_that_no_longer_runs_are_not_exported(running: MetricsFixture) -> None:
    running.now_ms = NOW + 11_000
    exported = names(running.samples())

    assert "gathered_rows_total" not in exported
    assert "gatherer_up" in exported


def write_loop(folder: Path, *, pid: int, turned_s_ago: float, longest_stall_s: float) -> None:
    turn_at_s = time.monotonic() - turned_s_ago
    loop = LoopCounts(pid=pid, turn_at_s=turn_at_s, longest_stall_s=longest_stall_s)
    stats = WrittenStats(at_ms=0, cpu_s=0, rss_bytes=None, rows=0, publications=0, loop=loop, clusters={})
    write_stats(folder / "stats.json", stats)


def test_stall_of_the_event_loop_is_the_longest_of_the_last_minute_or_the_present_one(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path)
    assert reader(running.samples())("gatherer_loop_stall_seconds") is None

    for turned_s_ago, longest_s in ((0, 8.5), (40, 8.5)):
        write_loop(tmp_path, pid=1, turned_s_ago=turned_s_ago, longest_stall_s=longest_s)
        shown = present(reader(running.samples())("gatherer_loop_stall_seconds"))
        assert shown >= max(turned_s_ago, longest_s), "a frozen loop does not hide its stall"


def test_stall_of_a_former_gatherer_is_not_exported(tmp_path: Path) -> None:
    """After a restart the file is the former gatherer's until the new one writes its first statistics."""
    running = MetricsFixture(tmp_path)
    write_loop(tmp_path, pid=1, turned_s_ago=400, longest_stall_s=0.0)
    assert reader(running.samples())("gatherer_loop_stall_seconds") is not None

    running.gatherer_pid = 2

    assert reader(running.samples())("gatherer_loop_stall_seconds") is None


def test_a_store_that_does_not_answer_is_asked_once_at_a_scrape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each attempt to connect takes five seconds, and Prometheus waits for ten."""
    quarantine_of(job_database(tmp_path)).put({"prod-1-0": {}})
    running = MetricsFixture(tmp_path).batch(situation())
    asked: list[SqliteDatabase] = []

    def unavailable(database: SqliteDatabase) -> None:
        asked.append(database)
        raise UnavailableStoreError("the store does not answer")

    monkeypatch.setattr(SqliteDatabase, "reading", unavailable)
    found = names(running.samples())
    assert len(asked) == 1
    assert "current_leader" in found
    assert not found & {"quarantine_files", "audit_timestamp_seconds"}


def test_metrics_are_served_in_the_requested_format(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path).batch(situation())
    with Server(("127.0.0.1", 0), [metrics_endpoint(job_registry(running.sources))]) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        plain = requests.get(url, timeout=60)
        asked = {"Accept": "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"}
        open_metrics = requests.get(url, headers=asked, timeout=60)

    assert plain.headers["Content-Type"].startswith("text/plain; version=")
    assert samples(plain.text) == running.samples()
    assert open_metrics.headers["Content-Type"].startswith("application/openmetrics-text")
    assert open_metrics.text.endswith("# EOF\n")


@pytest.mark.debian("prometheus")
def test_promtool_accepts_the_metrics(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path, ("prod", "never"), [alert(cluster="prod")])
    running.heartbeats = HeartbeatCounts(sent=1, last_sent_at_ms=NOW)
    running.batch(situation("stop-fetching 2"), sinks={"console": SinkResult(delivered=1)}, quarantined={"prod": 1})

    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=running.text(), capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_metric_names_are_unique_and_follow_prometheus_conventions(tmp_path: Path) -> None:
    specs: list[MetricSpec[Any]] = [*CLUSTER_METRICS, *OWN_METRICS, *RELAY_METRICS]
    all_names = [spec.name for spec in specs]

    assert len(all_names) == len(set(all_names))
    for spec in specs:
        assert spec.help.endswith(".")
        assert not spec.name.endswith(("_ms", "_count", "_sum", "_bucket"))


def test_every_metric_is_documented_and_no_other(tmp_path: Path) -> None:
    of_relay = {family(spec, (), []).name for spec in RELAY_METRICS}
    exported = {one.name for one in job_registry(MetricsFixture(tmp_path).sources).collect()} | of_relay
    lines = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `kraftwatch_")]

    assert {line.partition("{")[0].removesuffix("_total") for line in lines} == exported
    assert len(lines) == len(exported)
