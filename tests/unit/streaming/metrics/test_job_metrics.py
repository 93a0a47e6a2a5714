"""What /metrics says of kraftwatch itself, and the page as Prometheus scrapes it."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from connectors.delivery.delivery_report import SinkResult
from connectors.errors import UsageError
from rules.finding import Severity
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import Reason
from streaming.config import Config
from streaming.config.reload import ConfigFile
from streaming.metrics.exporter import OF_QUORUMS, OWN, metrics, registry
from streaming.metrics.heartbeat import HeartbeatCounts
from streaming.metrics.metric_spec import Kind, MetricSpec, Origin
from streaming.web.server import Server
from tests.metric_page import PAGE, page
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.rules.situation import NOW, endpoint, failing, healthy, silent
from tests.unit.streaming.metrics.exposition import Running, names, reader, samples


def test_each_sinks_depth_failure_and_what_became_of_its_notices(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.batch(healthy(3), sinks={"slack": SinkResult(delivered=2, pending=1), "jsonl": SinkResult(delivered=3)})
    running.batch(
        healthy(3), sinks={"slack": SinkResult(retry=1, pending=4, silenced=2, failing="no"), "jsonl": SinkResult()}
    )
    read = reader(running.samples())

    assert (read("sink_pending_alerts", sink="slack"), read("sink_pending_alerts", sink="jsonl")) == (4, 0)
    assert (read("sink_failing", sink="slack"), read("sink_failing", sink="jsonl")) == (1, 0)
    assert read("sink_silenced_alerts", sink="slack") == 2
    assert read("sink_notices_total", sink="slack", outcome="delivered") == 2
    assert read("sink_notices_total", sink="slack", outcome="retry") == 1
    assert read("sink_notices_total", sink="jsonl", outcome="rejected") == 0


def test_alerts_that_fire_are_counted_and_0_is_told_of_a_cluster_that_was_judged(tmp_path: Path) -> None:
    firing = [alert(node, cluster="prod", severity=Severity.CRITICAL) for node in ("voter 1", "voter 2")]
    gone = alert(cluster="no longer watched")
    read = reader(Running(tmp_path, ("prod", "never"), [*firing, gone]).batch(healthy(3)).samples())

    assert [read("alerts_firing", severity=one) for one in ("critical", "warning", "info")] == [2, 0, 0]
    assert read("rule_firing", rule="no-leader", severity="critical") == 2
    assert read("alerts_firing", cluster="never", severity="critical") is None
    assert read("alerts_firing", cluster="no longer watched", severity="critical") is None


def test_before_the_first_batch_nothing_is_said_of_alerts_or_sinks(tmp_path: Path) -> None:
    told = names(Running(tmp_path).samples())

    assert not told & {"alerts_firing", "rule_firing", "sink_pending_alerts", "sink_failing", "staleness_seconds"}
    assert told >= {"build_info", "watchdog", "batches_total", "cluster_configured"}


def test_how_far_we_are_behind_the_log(tmp_path: Path) -> None:
    behind = replace(healthy(3), high_watermark=Offset(10_000), last_offset=Offset(9_899))
    behind = replace(behind, newest_timestamp_ms=Millis(NOW - 4_000), log_seen_at_ms=NOW)
    running = Running(tmp_path).batch(behind)
    running.now_ms += 2_000
    read = reader(running.samples())

    assert (read("log_lag_records"), read("log_lag_seconds"), read("portrait_age_seconds")) == (100, 6, 2)
    assert read("staleness_seconds") == 2


def test_what_the_gatherer_fails_at_now_and_failed_at_so_far(tmp_path: Path) -> None:
    running = Running(tmp_path).batch(failing(healthy(3), Reason.DENIED, str(endpoint(1))))
    unseen = {"quorum": {"denied": 7}}
    cluster = {"requests_sent": 90, "busiest_second": 8, "unseen": unseen}
    stats = {
        "at_ms": NOW,
        "cpu_s": 1.5,
        "rss_bytes": 1_000,
        "rows": 12,
        "publications": 3,
        "clusters": {"prod": cluster},
    }
    (tmp_path / "stats.json").write_text(json.dumps(stats))
    read = reader(running.samples())

    assert read("gather_errors_total", sight="quorum", reason="denied") == 7
    assert (read("gather_requests_total"), read("gathered_rows_total"), read("gatherer_up")) == (90, 12, 1)
    assert (read("gatherer_cpu_seconds_total"), read("gatherer_resident_memory_bytes")) == (1.5, 1_000)
    assert sum(value for (name, _), value in running.samples().items() if name == "gather_failing") > 0

    running.now_ms += 11_000
    assert reader(running.samples())("gathered_rows_total") is None, "what a dead gatherer left tells nothing of now"


def test_quarantine_and_journal(tmp_path: Path) -> None:
    for folder, files in (("journal", 2), ("quarantine", 3)):
        (tmp_path / folder).mkdir()
        for number in range(files):
            (tmp_path / folder / f"{number}").write_bytes(b"x" * 50)
    running = Running(tmp_path).batch(healthy(3), quarantined={"prod": 2}).batch(quarantined={"prod": 1})
    read = reader(running.samples())

    assert (read("quarantined_total"), read("quarantine_files"), read("journal_bytes")) == (3, 3, 100)


def test_the_watchdog_falls_silent_with_the_job(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.well = False

    assert reader(running.samples())("watchdog") == 0
    assert reader(running.samples())("heartbeats_total", outcome="sent") is None, "none is configured"


def test_the_heartbeats_own_success_is_told(tmp_path: Path) -> None:
    running = Running(tmp_path)
    running.beats = HeartbeatCounts(sent=3, failed=1, last_sent_at_ms=NOW)
    read = reader(running.samples())

    assert (read("heartbeats_total", outcome="sent"), read("heartbeats_total", outcome="failed")) == (3, 1)
    assert read("heartbeat_last_sent_timestamp_seconds") == NOW / 1000


def test_a_configuration_that_is_refused_is_told_and_one_that_there_is_not_is_not(tmp_path: Path) -> None:
    def broken() -> Config:
        raise UsageError("clusters: a list is wanted")

    path = tmp_path / "kraftwatch.yaml"
    path.write_text("clusters: []")
    file = ConfigFile(path, broken)
    running = Running(tmp_path)
    assert reader(running.samples())("config_refused") is None

    running.sources = replace(running.sources, config=file)
    assert reader(running.samples())("config_refused") == 0
    path.write_text("clusters: nothing")
    for _ in range(2):
        file.poll(lambda _: ())
    assert reader(running.samples())("config_refused") == 1
    assert reader(running.samples())("config_loaded_timestamp_seconds") == file.loaded_at_ms / 1000


def test_batches_are_timed(tmp_path: Path) -> None:
    read = reader(Running(tmp_path).batch(took_s=0.3).batch(took_s=4).samples())

    assert (read("batches_total"), read("batch_duration_seconds_count")) == (2, 2)
    assert (read("batch_duration_seconds_bucket", le="0.5"), read("batch_duration_seconds_bucket", le="5.0")) == (1, 2)


def test_the_page_is_what_prometheus_asks_for(tmp_path: Path) -> None:
    running = Running(tmp_path).batch(healthy(3))
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
def test_promtool_has_nothing_to_say_of_the_page(tmp_path: Path) -> None:
    running = Running(tmp_path, ("prod", "never"), [alert(cluster="prod")])
    running.beats = HeartbeatCounts(sent=1, last_sent_at_ms=NOW)
    running.batch(silent(healthy(3), 2), sinks={"console": SinkResult(delivered=1)}, quarantined={"prod": 1})

    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=running.text(), capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_no_name_stands_twice_and_every_name_is_as_prometheus_wants_it(tmp_path: Path) -> None:
    measures: list[MetricSpec[Any]] = [*OF_QUORUMS, *OWN]
    all_names = [measure.name for measure in measures]

    assert len(all_names) == len(set(all_names))
    for measure in measures:
        assert measure.name.endswith("_total") == (measure.kind is Kind.COUNTER)
        assert measure.words.endswith(".")
        assert not measure.name.endswith(("_ms", "_count", "_sum", "_bucket"))
    assert {measure.origin for measure in OWN} == {Origin.OWN}


def test_every_metric_has_its_line_in_the_documents_and_no_other_has(tmp_path: Path) -> None:
    told = {family.name for family in registry(Running(tmp_path).sources).collect()}
    lines = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `kraftwatch_")]

    assert {line.partition("{")[0].removesuffix("_total") for line in lines} == told
    assert len(lines) == len(told)
    assert PAGE.read_text() == page(), "run `make goldens`, and read the difference"
