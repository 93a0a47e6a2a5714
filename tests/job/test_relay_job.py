"""A relay and a job that reads its topic, on a real quorum: the same alerts as a job that gathers itself."""

import json
import subprocess
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.relay.relay_message import Baseline, RelayMessage
from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess, JsonlLine
from streaming.pipeline.topic_batch import MOST_S
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.job_processes import assert_counts, is_java, processes
from tests.job.relay_job import KEPT, assert_fired_and_resolved_once, delete_logs, reading_job
from tests.job.relay_process import RelayProcess, counted, is_accepted

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(1_200)]

LAB = {"brokers": 0}
YEAR_MS = 365 * 86_400_000
IDLE_S = 36


def test_relayed_rows_fire_and_resolve_after_forged_rows_and_kills_of_relay_and_job(
    lab: Lab, relay: RelayProcess, folder: Path, tmp_path: Path
) -> None:
    """Spark's files are not in the job's folder, as in HDFS or S3; the killed job starts with other partitions."""
    work = tmp_path / "work"
    place: dict[str, Any] = {"checkpoint": f"file:{tmp_path / 'spark'}", "work_dir": str(tmp_path / "work")}
    job = reading_job(relay, lab, tmp_path, **place)
    with job:
        assert_forged_rows_are_refused(relay, job)
        lab.pause(*lab.controllers[:2])
        firing = job.wait_for("no-leader")
        relay.kill()
        relay.start()
        job.kill()
        delete_logs(work)
        assert {path.name for path in work.iterdir()} <= KEPT
        reading_job(relay, lab, tmp_path, pipeline={"partitions": 2}, **place)
        job.start()
        assert job.logged(
            "set aside: its state has 1 partition, and pipeline.partitions is 2. It is built again from th"
        )
        lab.resume(*lab.controllers[:2])
        resolved = job.wait_for("no-leader", "resolved")

        assert (firing.line["fingerprint"], firing.started_at) == (resolved.line["fingerprint"], resolved.started_at)
        assert_fired_and_resolved_once(job)
        rows = relay.messages()
    right = counted([one for one in rows if one.cluster_id == lab.cluster_id and is_accepted(one)])
    assert len({one.baseline for one in right}) == 1, "a restart continues the log"
    job.write_config(clusters=[section("test", lab)], checkpoint=str(work))
    assert_other_sources_are_refused(job)


def test_an_outage_is_notified_once_while_java_is_suspended(lab: Lab, relay: RelayProcess, tmp_path: Path) -> None:
    job = reading_job(relay, lab, tmp_path)
    with job:
        eventually(lambda: assert_counts(job, "spark"), within_s=120)
        (java,) = processes(job, is_java)
        java.suspend()
        lab.pause(*lab.controllers[:2])
        job.wait_for("no-leader", within_s=100)
        assert_counts(job, "understudy")
        lab.resume(*lab.controllers[:2])
        job.wait_for("no-leader", "resolved", within_s=60)
        java.resume()
        eventually(lambda: assert_counts(job, "spark"), within_s=90)
        assert_fired_and_resolved_once(job)


def test_an_idle_cluster_needs_a_batch_every_nine_seconds_and_a_fault_makes_one_at_once(
    lab: Lab, relay: RelayProcess, tmp_path: Path
) -> None:
    sinks = [f"jsonl:{tmp_path}/job/alerts.jsonl", "console"]
    job = reading_job(relay, lab, tmp_path, thresholds={"no-leader": {"hold": 0}}, log_format="json", sinks=sinks)
    counted_at: list[tuple[float, int]] = []

    def is_idle() -> None:
        now = time.monotonic()
        counted_at.append((now, batches(job)))
        before = [count for at, count in counted_at if IDLE_S <= now - at < IDLE_S + 5]
        assert before, "it was not watched long enough"
        assert counted_at[-1][1] - before[-1] <= IDLE_S // 9

    with job:
        eventually(is_idle, within_s=120, every_s=1)
        # The first batch may hold what the quorum's own start looked like: an alert of its own.
        before_fault = len(job.alerts())
        lab.pause(*lab.controllers[:2])
        try:
            fired = job.wait_for("no-leader", since=before_fault)
        finally:
            lab.resume(*lab.controllers[:2])
        observed, sent = (datetime.fromisoformat(fired.line[name]) for name in ("observed_at", "sent_at"))
        assert (sent - observed).total_seconds() < MOST_S, "it did not wait for the next batch"
        job.wait_for("no-leader", "resolved", since=before_fault)
    assert_each_line_is_an_event(job, fired)


def assert_each_line_is_an_event(job: ConfiguredJob, fired: JsonlLine) -> None:
    """stderr has nothing but JSON, with the alert among it, although the job started and ended."""
    events = [json.loads(line) for line in job.log.read_text().splitlines()]
    assert all({"time", "level", "message"} <= event.keys() for event in events)
    (fires, resolved) = [one for one in events if one.get("fingerprint") == fired.line["fingerprint"]][-2:]
    assert (fires["rule"], fires["cluster"], fires["level"]) == ("no-leader", "test", "ERROR")
    assert (resolved["state"], resolved["level"]) == ("resolved", "INFO")


def batches(job: JobProcess) -> int:
    """Returns the number of the newest batch that is committed; -1 before the first one."""
    names = (each.name for each in (job.checkpoint / "spark" / "commits").iterdir())
    return max((int(name) for name in names if name.isdigit()), default=-1)


@pytest.mark.long
def test_a_state_that_spark_cannot_read_is_built_again_while_an_alert_fires(
    lab: Lab, relay: RelayProcess, tmp_path: Path
) -> None:
    spark = tmp_path / "spark"
    job = reading_job(relay, lab, tmp_path, checkpoint=f"file:{spark}", work_dir=str(tmp_path / "work"))
    with job:
        lab.pause(*lab.controllers[:2])
        try:
            job.wait_for("no-leader")
            job.kill()
            for changed in (spark / "state").rglob("*.*"):
                changed.write_bytes(b"damaged")
            job.start()
            eventually(lambda: job.logged("is set aside: Spark cannot read it: "), within_s=60, every_s=1)
            assert (tmp_path / "spark.before-1" / "state").is_dir()
        finally:
            lab.resume(*lab.controllers[:2])
        job.wait_for("no-leader", "resolved")
    assert_fired_and_resolved_once(job)


def forged(row: RelayMessage) -> dict[str, RelayMessage]:
    """Returns rows that no right relay writes, by what is wrong with them, made from one of its rows."""
    observed = replace(row.observation, sequence=row.observation.sequence + 1)
    beyond = replace(observed, sequence=observed.sequence + (1 << 40))
    return {
        "time": replace(row, observation=replace(observed, observed_at_ms=observed.observed_at_ms + YEAR_MS)),
        "sequence": replace(row, observation=beyond),
        "cluster id": replace(row, observation=observed, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"),
        "baseline": replace(row, observation=observed, baseline=Baseline(sequence=beyond.sequence, at_ms=0)),
    }


def assert_forged_rows_are_refused(relay: RelayProcess, job: ConfiguredJob) -> None:
    written = forged(relay.messages()[-1])
    relay.write(*written.values())
    for part in written:
        alert = job.wait_for("monitor-degraded", subject=f"rows of test: {part}")
        evidence = alert.line["evidence"]
        place = f"topic {relay.section['topic']} partition "
        assert (evidence["cluster"], evidence["refused"], alert.severity) == ("test", part, "warning")
        assert evidence["topic_partition"].startswith(place)
        assert f"offset {evidence['offset']})" in alert.line["summary"]


def assert_other_sources_are_refused(job: ConfiguredJob) -> None:
    refused = subprocess.run(job.command(), capture_output=True, text=True, check=False, timeout=300)
    assert refused.returncode == 2, refused.stderr
    (sentence,) = refused.stderr.strip().splitlines()
    assert "belongs to source: kafka, topic " in sentence
    assert "not to source: gatherer; nothing was changed" in sentence
