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
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import Reason
from streaming.metrics.heartbeat import HeartbeatCounts
from streaming.metrics.job_metrics import CLUSTER_METRICS, JOB_METRICS, OWN_METRICS, job_registry, metrics
from streaming.metrics.metric_spec import MetricSpec, family
from streaming.metrics.relay_metrics import RELAY_METRICS
from streaming.web.server import Server
from tests.metric_page import PAGE, page
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.rules.situation import NOW, endpoint, failing, healthy, present, voter_not_fetching
from tests.unit.streaming.metrics.exposition import MetricsFixture, names, reader, samples


def test_pending_alerts_failure_and_notifications_of_each_sink(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path)
    running.batch(healthy(3), sinks={"slack": SinkResult(delivered=2, pending=1), "jsonl": SinkResult(delivered=3)})
    running.batch(
        healthy(3), sinks={"slack": SinkResult(retry=1, pending=4, silenced=2, failing="no"), "jsonl": SinkResult()}
    )
    read = reader(running.samples())

    assert (read("sink_pending_alerts", sink="slack"), read("sink_pending_alerts", sink="jsonl")) == (4, 0)
    assert (read("sink_failing", sink="slack"), read("sink_failing", sink="jsonl")) == (1, 0)
    assert read("sink_silenced_alerts", sink="slack") == 2
    assert read("sink_notifications_total", sink="slack", outcome="delivered") == 2
    assert read("sink_notifications_total", sink="slack", outcome="retry") == 1
    assert read("sink_notifications_total", sink="jsonl", outcome="rejected") == 0


def test_an_alert_of_the_job_itself_is_counted_without_a_batch(tmp_path: Path) -> None:
    firing: list[Alert] = []
    job = MetricsFixture(tmp_path, firing=firing).batch(healthy(3))
    firing.append(alert("relay", cluster="prod", severity=Severity.CRITICAL))
    job.batch_stats.note_firing()

    assert reader(job.samples())("alerts_firing", severity="critical") == 1


def test_firing_alerts_are_counted_and_an_evaluated_cluster_without_alerts_has_0(tmp_path: Path) -> None:
    firing = [alert(node, cluster="prod", severity=Severity.CRITICAL) for node in ("voter 1", "voter 2")]
    removed = alert(cluster="no longer configured")
    read = reader(MetricsFixture(tmp_path, ("prod", "never"), [*firing, removed]).batch(healthy(3)).samples())

    assert [read("alerts_firing", severity=one) for one in ("critical", "warning", "info")] == [2, 0, 0]
    assert read("rule_firing", rule="no-leader", severity="critical") == 2
    assert read("alerts_firing", cluster="never", severity="critical") is None
    assert read("alerts_firing", cluster="no longer configured", severity="critical") is None


def test_alert_and_sink_metrics_are_absent_before_the_first_batch(tmp_path: Path) -> None:
    exported = names(MetricsFixture(tmp_path).samples())

    assert not exported & {"alerts_firing", "rule_firing", "sink_pending_alerts", "sink_failing", "staleness_seconds"}
    assert exported >= {"build_info", "watchdog", "batches_total", "cluster_configured"}


def test_log_lag_and_staleness(tmp_path: Path) -> None:
    behind = replace(healthy(3), high_watermark=Offset(10_000), last_offset=Offset(9_899))
    behind = replace(behind, newest_timestamp_ms=Millis(NOW - 4_000), log_seen_at_ms=NOW)
    running = MetricsFixture(tmp_path).batch(behind)
    running.now_ms += 2_000
    read = reader(running.samples())

    assert (read("log_lag_records"), read("log_lag_seconds"), read("status_age_seconds")) == (100, 6, 2)
    assert read("staleness_seconds") == 2


def test_gatherer_errors_now_and_in_total(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path).batch(failing(healthy(3), Reason.DENIED, str(endpoint(1))))
    failures = {"quorum": {"denied": 7}}
    cluster = {"requests_sent": 90, "busiest_second": 8, "failed_observations": failures}
    stats = {
        "at_ms": NOW,
        "cpu_s": 1.5,
        "rss_bytes": 1_000,
        "rows": 12,
        "publications": 3,
        "loop": {"pid": 1, "turn_at_s": 1.0, "longest_stall_s": 0.0},
        "clusters": {"prod": cluster},
    }
    (tmp_path / "stats.json").write_text(json.dumps(stats))
    read = reader(running.samples())

    assert read("gather_errors_total", source="quorum", reason="denied") == 7
    assert (read("gather_requests_total"), read("gathered_rows_total"), read("gatherer_up")) == (90, 12, 1)
    assert (read("gatherer_cpu_seconds_total"), read("gatherer_resident_memory_bytes")) == (1.5, 1_000)
    assert sum(value for (name, _), value in running.samples().items() if name == "gather_failing") > 0

    running.now_ms += 11_000
    assert reader(running.samples())("gathered_rows_total") is None, (
        "statistics of a gatherer that no longer runs are not exported"
    )


def test_the_newest_audit(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path)
    assert not names(running.samples()) & {"audit_timestamp_seconds", "audit_rows", "audit_broken_rows"}

    found = ContractResult(
        audited_at_ms=Millis(NOW),
        suite="events",
        contract="every-record-decodes",
        severity=Severity.WARNING,
        checked_rows=500,
        broken_rows=2,
    )
    running.sources.audits.add([replace(found, audited_at_ms=Millis(NOW - 1_000), broken_rows=9)])
    running.sources.audits.add([found])
    read = reader(running.samples())

    assert (read("audit_timestamp_seconds"), read("audit_rows", suite="events")) == (NOW / 1000, 500)
    assert read("audit_broken_rows", suite="events", contract="every-record-decodes", severity="warning") == 2


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
    running = MetricsFixture(tmp_path).batch(healthy(3))
    asked: list[SqliteDatabase] = []

    def unavailable(database: SqliteDatabase) -> None:
        asked.append(database)
        raise UnavailableStoreError("the store does not answer")

    monkeypatch.setattr(SqliteDatabase, "reading", unavailable)
    found = names(running.samples())
    assert len(asked) == 1
    assert "current_leader" in found
    assert not found & {"quarantine_files", "audit_timestamp_seconds"}


def test_quarantine_and_journal(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    for number in range(2):
        (tmp_path / "journal" / f"{number}").write_bytes(b"x" * 50)
    quarantine_of(job_database(tmp_path)).put({"prod-1-0": {}, "prod-2-0": {}, "lab-1-0": {}})
    running = MetricsFixture(tmp_path).batch(healthy(3), quarantined={"prod": 2}).batch(quarantined={"prod": 1})
    read = reader(running.samples())

    assert (read("quarantined_total"), read("quarantine_files"), read("journal_bytes")) == (3, 3, 100)
    (help_text,) = [each.help for each in JOB_METRICS if each.name == "quarantined_total"]
    for counted in ("records that did not decode", "rows on which kraftwatch failed", "damaged states"):
        assert counted in help_text


def test_heartbeats_are_counted_and_the_watchdog_ends_when_the_job_is_not_healthy(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path)
    assert reader(running.samples())("heartbeats_total", outcome="sent") is None, "none is configured"
    running.healthy = False
    running.heartbeats = HeartbeatCounts(sent=3, failed=1, last_sent_at_ms=NOW)
    read = reader(running.samples())

    assert read("watchdog") == 0
    assert (read("heartbeats_total", outcome="sent"), read("heartbeats_total", outcome="failed")) == (3, 1)
    assert read("heartbeat_last_sent_timestamp_seconds") == NOW / 1000


def test_refused_configuration_is_exported_and_absent_without_a_file(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path)
    assert reader(running.samples())("config_refused") is None

    running.sources = replace(running.sources, config_refused=lambda: True, config_loaded_at_ms=lambda: NOW)
    read = reader(running.samples())
    assert (read("config_refused"), read("config_loaded_timestamp_seconds")) == (1, NOW / 1000)


def test_batch_durations_are_a_histogram(tmp_path: Path) -> None:
    read = reader(MetricsFixture(tmp_path).batch(took_s=0.3).batch(took_s=4).samples())

    assert (read("batches_total"), read("batch_duration_seconds_count")) == (2, 2)
    assert (read("batch_duration_seconds_bucket", le="0.5"), read("batch_duration_seconds_bucket", le="5.0")) == (1, 2)


def test_metrics_are_served_in_the_requested_format(tmp_path: Path) -> None:
    running = MetricsFixture(tmp_path).batch(healthy(3))
    with Server(("127.0.0.1", 0), [metrics(running.sources)]) as server:
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
    running.batch(
        voter_not_fetching(healthy(3), 2), sinks={"console": SinkResult(delivered=1)}, quarantined={"prod": 1}
    )

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
    assert PAGE.read_text() == page(), "run `make goldens` and review the diff"
