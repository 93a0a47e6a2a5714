"""What a job reports on itself: its clock, silent relays, refused and waiting rows, late evaluation, failing sinks."""

import json
import tracemalloc
from pathlib import Path

import pytest

from connectors.errors import UnavailableStoreError
from connectors.sinks.sink import DeliveryMode
from connectors.store.audit_results import AuditResults, ContractResult
from rules.alert import AlertState
from rules.finding import Severity
from rules.job.monitor_degraded import CLOCK_LASTS_MS, REFUSED_LASTS_MS
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.route import Route
from streaming.job.dependencies import Dependency
from streaming.job.job_monitor import REPORTED_MS
from streaming.replay.cluster_monitor import WaitingRows
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink
from tests.unit.streaming.job.monitored_job import MonitoredJob, brief

HOUR_MS = 3_600_000
FIRED, RESOLVED = AlertState.FIRING, AlertState.RESOLVED
NOTHING = WaitingRows(size=0, since_ms=None)
TOPICS = {"a": "t", "b": "t"}


@pytest.fixture
def job(tmp_path: Path) -> MonitoredJob:
    return MonitoredJob(tmp_path)


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
def test_a_clock_that_was_set_fires_once_and_ends(job: MonitoredJob, step_ms: int) -> None:
    assert job.after(5) == []
    (fired,) = job.after(1, step_ms=step_ms)
    assert (fired.cluster, fired.rule, fired.subject) == ("kraftwatch", "monitor-degraded", "clock")
    assert fired.evidence == {"clock_before_at_ms": job.wall_ms - step_ms, "clock_now_at_ms": job.wall_ms}
    assert job.after(CLOCK_LASTS_MS / 1_000 - 5) == []
    # The time of rows goes on more slowly while it is ahead of the clock.
    assert brief(job.after(100)) == [("clock", RESOLVED)]
    assert job.after(60) == []


def test_what_is_missing_fires_after_a_minute_and_resolves_when_it_is_there(job: MonitoredJob) -> None:
    job.missing = {Dependency.CHECKPOINT: ("checkpoint s3a://b/k does not answer", 0)}
    assert job.after(55) == []
    (fired,) = job.after(10)
    assert (fired.cluster, fired.rule, fired.subject) == ("kraftwatch", "monitor-degraded", "checkpoint")
    assert fired.evidence["reason"] == "checkpoint s3a://b/k does not answer"
    job.missing = {Dependency.STORE: ("the store does not answer", 60)}
    assert brief(job.after(120)) == [("checkpoint", RESOLVED)], "no alert about the store: it could not be recorded"


def test_a_second_step_changes_the_alert_which_lasts_longer_also_after_a_restart(
    job: MonitoredJob,
) -> None:
    job.after(5)
    (first,) = job.after(1, step_ms=HOUR_MS)
    (second,) = job.after(300, step_ms=-HOUR_MS)
    assert second.evidence["clock_now_at_ms"] == job.wall_ms
    assert (second.state, second.started_at_ms, second.fingerprint) == (FIRED, first.started_at_ms, first.fingerprint)
    assert job.after(300) == []
    job.restart()
    assert job.after(300) == []
    assert brief(job.after(400)) == [("clock", RESOLVED)]


def test_small_corrections_of_the_clock_are_not_reported(job: MonitoredJob) -> None:
    assert [job.after(5, step_ms=step_ms) for step_ms in (REPORTED_MS - 1_000, 1_000 - REPORTED_MS, 5)] == [[], [], []]


def test_a_silent_relay_fires_after_a_minute_and_resolves_with_its_rows(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path, topics=TOPICS)
    job.batch("a", "b")
    for _ in range(59):
        job.batch("b")
        assert job.after(1) == []
    job.batch("b")
    (fired,) = job.after(1)
    assert brief([fired]) == [("relay of a", FIRED)]
    assert (fired.rule, fired.severity) == ("monitor-degraded", Severity.CRITICAL)
    # A pager of one cluster is not for the relay of another one.
    assert [Route(clusters=(name,)).matches(fired) for name in "ab"] == [True, False]
    job.batch("a", "b")
    assert brief(job.after(11)) == [("relay of a", RESOLVED)]


def test_after_a_restart_nothing_is_known_of_a_silent_relay_until_it_sends_or_is_silent_again(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path, topics=TOPICS)
    job.batch("a", "b")
    assert brief(job.after(60)) == [("relay of a", FIRED), ("relay of b", FIRED)]
    job.restart()
    assert job.after(50) == []
    job.batch("a")
    assert brief(job.after(40)) == [("relay of a", RESOLVED)]


def test_a_relay_is_not_silent_while_its_rows_are_not_read(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path, topics=TOPICS, read_s_ago=None)
    assert job.after(600) == []
    job.batch("a", "b")
    job.read_s_ago = 2
    assert job.after(60) == []
    assert len(job.after(3)) == 2


def test_a_relay_whose_rows_wait_for_a_batch_is_not_silent(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path, topics=TOPICS)
    job.batch("a", "b")
    job.row_s_ago = {"a": 1.5, "b": 1.5}
    assert job.after(120) == []
    job.row_s_ago = {"b": 1.5}
    assert job.after(58) == []
    assert brief(job.after(1)) == [("relay of a", FIRED)]


def test_the_relay_of_a_cluster_that_has_none_any_more_resolves(tmp_path: Path) -> None:
    """As for a job that gathers itself now, and has the store of before."""
    job = MonitoredJob(tmp_path, topics=TOPICS)
    job.batch("b")
    assert len(job.after(61)) == 2
    job.topics = {}
    assert brief(job.after(11)) == [("relay of a", RESOLVED), ("relay of b", RESOLVED)]


TOO_LATE = "its time is 2 h beyond the time at which the topic got it"


def refused(offset: int, *, cluster: str | None = "a", part: str = "time") -> str:
    """Returns what the decoder leaves of a refused message."""
    return json.dumps(
        {
            "cluster": "topic observations partition 3",
            "sequence": offset,
            "observed_at_ms": NOON_MS,
            "offset": offset,
            "length": 10,
            "reason": TOO_LATE,
            "part": part,
            "rows_of": cluster,
        }
    )


def test_refused_rows_are_an_alert_with_cluster_reason_and_place(job: MonitoredJob) -> None:
    job.batch(refused=[refused(12), refused(13)])
    (alert,) = job.after(0)

    assert (alert.rule, alert.cluster) == ("monitor-degraded", "kraftwatch")
    assert alert.evidence == {
        "clusters": ["a"],
        "cluster": "a",
        "refused": "time",
        "reason": TOO_LATE,
        "topic_partition": "topic observations partition 3",
        "offset": 12,
        "appended_at_ms": NOON_MS,
    }


def test_each_cluster_and_each_part_that_is_refused_is_one_alert(job: MonitoredJob) -> None:
    job.batch(refused=[refused(1), refused(2), refused(3, part="sequence"), refused(4, cluster="b")])
    job.batch(refused=[refused(5, cluster=None, part="message")])
    alerts = job.after(0)

    assert [one.subject for one in alerts] == [
        "rows of a: time",
        "rows of a: sequence",
        "rows of b: time",
        "messages of topic observations partition 3",
    ]
    assert [Route(clusters=("b",)).matches(alert) for alert in alerts] == [False, False, True, True]


def test_a_job_that_does_not_notify_keeps_one_refused_row_of_each_kind(job: MonitoredJob) -> None:
    """It may stand by for months while a relay with a wrong clock writes several rows a second."""
    tracemalloc.start()
    for offset in range(1_000):
        job.batch(refused=[refused(offset)])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 50_000
    assert [alert.evidence["offset"] for alert in job.after(0)] == [0]


def test_refused_rows_resolve_half_an_hour_after_the_newest_one_or_the_restart(job: MonitoredJob) -> None:
    job.batch(refused=[refused(1)])
    assert brief(job.after(0)) == [("rows of a: time", FIRED)]
    assert job.after(600) == []
    job.restart()
    assert job.after(600) == []
    job.batch(refused=[refused(3)])
    assert job.after(REFUSED_LASTS_MS / 1_000 - 1) == []
    assert brief(job.after(12)) == [("rows of a: time", RESOLVED)]


def test_rows_that_wait_are_reported_after_half_a_minute_and_resolve_when_none_waits(job: MonitoredJob) -> None:
    some = WaitingRows(size=3_000_000, since_ms=job.at(0))
    job.batch("a", waiting={"a": some})
    assert job.after(20) == []
    job.batch("a", waiting={"a": NOTHING})
    assert job.after(1) == [], "a large log that was read for the first time"
    job.batch("a", waiting={"a": some})
    assert job.after(29) == []
    job.batch("a", waiting={"a": WaitingRows(size=5_000_000, since_ms=job.at(0))})
    (fired,) = job.after(2)
    assert brief([fired]) == [("log of a", FIRED)]
    assert fired.evidence["waiting_bytes"] == 5_000_000

    job.restart()
    assert job.after(100) == [], "a job that was restarted sees first whether rows wait"
    job.batch("a")
    assert brief(job.after(11)) == [("log of a", RESOLVED)]


def test_a_job_that_stays_behind_is_reported_after_a_minute(job: MonitoredJob) -> None:
    for _ in range(60):
        job.batch("a", late_ms=12_000)
        assert job.after(1) == []
    job.batch("a", late_ms=12_000)
    (fired,) = job.after(1)
    assert brief([fired]) == [("evaluation", FIRED)]
    assert fired.evidence == {"late_ms": 12_000}
    job.batch("a")
    assert brief(job.after(11)) == [("evaluation", RESOLVED)]


def test_a_sink_that_fails_for_minutes_is_reported_by_the_others_and_not_by_itself(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path)
    (failing,) = job.sinks
    failing.unreachable = True
    job.after(0, *job.blinded("a"))
    assert job.after(299) == []
    (sent,) = job.after(5)
    assert (sent.rule, sent.subject, sent.severity) == ("sink-failing", "sink sink 0", "warning")
    assert (sent.evidence["sink"], sent.evidence["reason"]) == ("sink 0", "unreachable")
    job.restart()
    assert job.after(300) == []
    failing.unreachable = False
    assert brief(job.after(40)) == [("sink sink 0", RESOLVED)]
    assert [one.rule for one in failing.transitions] == ["monitor-blind"]
    assert [one.state for one in job.record.transitions if one.cluster_id == JOB_CLUSTER_ID] == [FIRED, RESOLVED]


def test_an_alert_about_a_removed_sink_resolves(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path)
    job.sinks[0].unreachable = True
    job.after(0, *job.blinded("a"))
    assert len(job.after(310)) == 1
    job.set_sinks(RecordingSink("other", mode=DeliveryMode.INCIDENTS))
    assert brief(job.after(11)) == [("sink sink 0", RESOLVED)]


def test_the_hold_of_a_failing_sink_goes_on_while_another_job_takes_its_turn(tmp_path: Path) -> None:
    job = MonitoredJob(tmp_path)
    job.sinks[0].unreachable = True
    job.after(0, *job.blinded("a"))
    job.after(200)
    job.steady_ms, job.wall_ms = job.steady_ms + 60_000, job.wall_ms + 60_000
    job.monitor.begin(job.ledger.firing())
    assert len(job.after(45)) == 1


def audited(at_ms: int, *broken: str, severity: Severity = Severity.CRITICAL) -> list[ContractResult]:
    return [
        ContractResult(
            audited_at_ms=Millis(at_ms),
            suite="observations",
            contract=name,
            severity=severity,
            checked_rows=5_000,
            broken_rows=2 if name in broken else 0,
            clusters=("a",) if name in broken else (),
            example="row 12" if name in broken else None,
        )
        for name in ("offsets-ascend", "record-time-plausible")
    ]


def test_what_an_audit_found_fires_until_an_audit_does_not_find_it(job: MonitoredJob) -> None:
    job.audits.add(audited(NOON_MS, "offsets-ascend"))
    (fired,) = job.after(1)
    assert (fired.rule, fired.subject, fired.severity) == (
        "audit-violations",
        "contract offsets-ascend",
        Severity.CRITICAL,
    )
    assert fired.evidence["clusters"] == ["a"]
    assert (fired.evidence["rows"], fired.evidence["checked_rows"]) == (2, 5_000)
    assert job.after(3_600) == []
    job.restart()
    job.audits.add(audited(NOON_MS + 1, "offsets-ascend"))
    assert job.after(60) == []

    job.audits.add(audited(NOON_MS + 2))
    assert brief(job.after(60)) == [("contract offsets-ascend", RESOLVED)]


def test_while_the_results_of_audits_cannot_be_read_their_alerts_keep_firing(
    job: MonitoredJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.audits.add(audited(NOON_MS, "offsets-ascend"))
    assert brief(job.after(1)) == [("contract offsets-ascend", FIRED)]
    job.restart()

    def unreadable(_: AuditResults) -> list[ContractResult]:
        raise UnavailableStoreError("the store does not answer")

    monkeypatch.setattr(AuditResults, "newest", unreadable)
    assert job.after(600) == []
    monkeypatch.undo()
    assert job.after(60) == []
