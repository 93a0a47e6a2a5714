"""What a job reports on itself: a clock that was set, silent relays, refused rows, and that it is behind."""

import json
import logging
import tracemalloc
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from connectors.delivery.delivery_report import DeliveryReport
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import Route
from streaming.job.own_alerts import (
    BEHIND_MS,
    LAG_LASTS_MS,
    REFUSED_MS,
    REPORTED_MS,
    STEP_LASTS_MS,
    JobLag,
    OwnAlerts,
)
from streaming.metrics.batch_stats import DeliveredBatch
from streaming.replay.cluster_monitor import WaitingRows
from tests.unit.streaming.status.statuses import NO_OBSERVATION

NOW = Millis(1_800_000_000_000)
HOUR_MS = 3_600_000
TOPICS = {"a": "t", "b": "t"}
EMPTY_BATCH = DeliveredBatch(took_s=0.1, statuses=[], quarantined={}, report=DeliveryReport(recorded=0, sinks={}))
NOTHING = WaitingRows(size=0, since_ms=None)
FIRED, RESOLVED = AlertState.FIRING, AlertState.RESOLVED


class Job:
    """The alerts of a job whose clocks the test moves; a restart makes them again from what fires."""

    def __init__(self) -> None:
        self.steady_ms, self.wall_ms = 100_000, int(NOW)
        self.firing: dict[str, Alert] = {}
        self.clusters = ["a", "b"]
        self.restart()

    def restart(self) -> None:
        firing = [*self.firing.values()]
        self.own = OwnAlerts(firing, steady=lambda: Millis(self.steady_ms), wall=lambda: Millis(self.wall_ms))

    def batch(self, *clusters: str, refused: Sequence[str] = ()) -> None:
        statuses = [replace(NO_OBSERVATION, cluster=name) for name in clusters]
        self.own.note_batch(replace(EMPTY_BATCH, statuses=statuses, refused=refused))

    def after(
        self,
        seconds: float,
        *arrived: str,
        step_ms: int = 0,
        read_s_ago: float | None = 0,
        topics: Mapping[str, str] = TOPICS,
    ) -> list[Alert]:
        """Returns the transitions; `read_s_ago` is how long ago the topic of both was read to its end, if it was."""
        self.steady_ms += round(1000 * seconds)
        self.wall_ms += round(1000 * seconds) + step_ms
        if arrived:
            self.batch(*arrived)
        read = {"other": 0.0} if read_s_ago is None else {"t": read_s_ago}
        alerts = [*self.own.due(topics, read, clusters=self.clusters)]
        for one in alerts:
            self.firing.pop(one.subject, None)
            if one.state is FIRED:
                self.firing[one.subject] = one
        return alerts


def brief(alerts: Sequence[Alert]) -> list[tuple[str, AlertState]]:
    return [(one.subject, one.state) for one in alerts]


def gathering(job: Job, seconds: float, step_ms: int = 0) -> list[Alert]:
    """As `Job.after`, for a job without relays."""
    return job.after(seconds, step_ms=step_ms, topics={})


@pytest.mark.parametrize(
    ("step_ms", "what"),
    [(-HOUR_MS, "back by 60 min"), (HOUR_MS, "forward by 60 min, or the host was suspended")],
)
def test_a_clock_that_was_set_fires_once_and_ends(step_ms: int, what: str) -> None:
    job = Job()
    assert gathering(job, 5) == []
    (fired,) = gathering(job, 5, step_ms)
    assert (fired.cluster, fired.rule, fired.subject) == ("kraftwatch", "monitor-blind", "clock")
    assert f"The clock of kraftwatch's host was set {what}." in fired.summary
    assert fired.started_at_ms == job.wall_ms, "it is not in the future"
    assert fired.evidence == {"clock_before_at_ms": job.wall_ms - step_ms, "clock_now_at_ms": job.wall_ms}
    assert gathering(job, STEP_LASTS_MS / 1000 - 1) == []
    (resolved,) = gathering(job, 1)
    assert (resolved.state, resolved.fingerprint) == (RESOLVED, fired.fingerprint)
    assert gathering(job, STEP_LASTS_MS / 1000) == []


def test_a_second_step_changes_the_alert_which_lasts_longer_and_stays_in_order() -> None:
    job = Job()
    gathering(job, 5)
    (first,) = gathering(job, 5, HOUR_MS)
    (second,) = gathering(job, STEP_LASTS_MS / 1000 - 1, -HOUR_MS)
    assert (second.state, "was set back by 60 min" in second.summary) == (FIRED, True)
    assert gathering(job, 300) == []
    job.restart()
    assert gathering(job, STEP_LASTS_MS / 1000 - 1) == []
    (resolved,) = gathering(job, 1)
    assert resolved.state is RESOLVED
    assert len({each.started_at_ms for each in (first, second, resolved)}) == 1, "else the first would never end"
    assert first.observed_at_ms < second.observed_at_ms <= resolved.observed_at_ms


def test_small_corrections_of_the_clock_are_not_reported() -> None:
    job = Job()
    assert [gathering(job, 5, step_ms) for step_ms in (REPORTED_MS - 1, 1 - REPORTED_MS, 5)] == [[], [], []]


def test_a_silent_relay_fires_once_after_a_minute_and_resolves_with_the_next_row() -> None:
    job = Job()
    assert job.after(0, "a", "b") == []
    assert job.after(59, "b") == []
    (fired,) = job.after(1, "b")
    assert brief([fired]) == [("relay of a", FIRED)]
    # A pager of one cluster is not for the relay of another one.
    assert [Route(clusters=(name,)).matches(fired) for name in "ab"] == [True, False]
    assert job.own.resend
    assert job.after(60, "b") == []
    assert brief(job.after(1, "a", "b")) == [("relay of a", RESOLVED)]
    assert not job.own.resend
    assert brief(job.after(60, "b")) == [("relay of a", FIRED)]

    job.restart()
    assert job.after(100, "b") == []
    assert brief(job.after(1, "a", "b")) == [("relay of a", RESOLVED)]


def test_a_cluster_is_silent_without_a_row_since_the_start_and_not_while_its_rows_are_not_read() -> None:
    job = Job()
    assert job.after(0) == []
    assert brief(job.after(60)) == [("relay of a", FIRED), ("relay of b", FIRED)]
    assert len(job.after(1, "a", "b")) == 2
    assert job.after(600, read_s_ago=None) == []
    assert job.after(1, "a", "b", read_s_ago=None) == []
    assert job.after(1) == []


def test_a_relay_is_silent_while_other_relays_keep_the_query_busy() -> None:
    """The query never waits for data; each batch reads all that was there when it began."""
    job = Job()
    job.after(0, "a", "b")
    assert job.after(40, "b", read_s_ago=2) == []
    assert job.after(21, "b", read_s_ago=2) == []
    assert brief(job.after(1, "b", read_s_ago=2)) == [("relay of a", FIRED)]


def test_a_silent_relay_that_is_no_longer_configured_resolves_and_begins_again() -> None:
    """As for a job that gathers itself now, and has the store of before."""
    job = Job()
    job.after(0, "b")
    assert brief(job.after(60, "b")) == [("relay of a", FIRED)]
    job.restart()
    assert brief(job.after(1, "b", topics={"b": "t"})) == [("relay of a", RESOLVED)]
    assert job.after(300, "b", topics={"b": "t"}) == []
    assert job.after(1, "b") == []
    assert job.after(59, "b") == []
    assert brief(job.after(1, "b")) == [("relay of a", FIRED)]


TOO_LATE = "its time is 2 h beyond the time at which the topic got it"


def refused(offset: int, *, cluster: str | None = "prod", part: str = "time") -> str:
    """Returns what the decoder leaves of a refused message."""
    return json.dumps(
        {
            "cluster": "topic observations partition 3",
            "sequence": offset,
            "observed_at_ms": NOW,
            "offset": offset,
            "length": 10,
            "reason": TOO_LATE,
            "part": part,
            "rows_of": cluster,
        }
    )


def test_refused_rows_are_an_alert_with_cluster_reason_and_place() -> None:
    job = Job()
    job.batch(refused=[refused(12), refused(13)])
    (alert,) = gathering(job, 0)

    assert (alert.rule, alert.cluster, alert.severity) == ("data-contract-broken", "kraftwatch", Severity.WARNING)
    assert alert.summary == (
        f"Refused rows of prod: {TOO_LATE} (topic observations partition 3, offset 12). "
        "No state was changed by it; rows of the right relay are accepted."
    )
    assert alert.evidence == {
        "clusters": ["prod"],
        "cluster": "prod",
        "refused": "time",
        "reason": TOO_LATE,
        "topic_partition": "topic observations partition 3",
        "offset": 12,
        "appended_at_ms": NOW,
    }
    assert alert.remedy[0].startswith("# Correct the clock of the relay's host")


def test_each_cluster_and_each_part_that_is_refused_is_one_alert() -> None:
    job = Job()
    job.batch(refused=[refused(1), refused(2), refused(3, part="sequence"), refused(4, cluster="test")])
    job.batch(refused=[refused(5, cluster=None, part="message")])
    alerts = gathering(job, 0)

    assert [one.subject for one in alerts] == [
        "rows of prod: time",
        "rows of prod: sequence",
        "rows of test: time",
        "messages of topic observations partition 3",
    ]
    assert [Route(clusters=("test",)).matches(alert) for alert in alerts] == [False, False, True, True]
    assert gathering(job, 0) == []


def test_a_job_that_does_not_notify_keeps_one_refused_row_of_each_kind() -> None:
    """It may stand by for months while a relay with a wrong clock writes several rows a second."""
    job = Job()
    tracemalloc.start()
    for offset in range(1_000):
        job.batch(refused=[refused(offset)])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 50_000
    assert [alert.evidence["offset"] for alert in gathering(job, 0)] == [0]


def test_refused_rows_resolve_half_an_hour_after_the_newest_one_or_the_restart() -> None:
    job = Job()
    job.batch(refused=[refused(1)])
    gathering(job, 0)
    job.batch(refused=[refused(2)])
    assert gathering(job, 60) == []
    assert gathering(job, REFUSED_MS / 1000 - 60, step_ms=HOUR_MS)[0].subject == "clock", (
        "no clock that was set ends it"
    )
    job.restart()
    assert gathering(job, 60) == []
    job.batch(refused=[refused(3)])
    assert brief(gathering(job, 600)) == [("clock", RESOLVED)]
    assert gathering(job, REFUSED_MS / 1000 - 1) == []
    assert brief(gathering(job, 1)) == [("rows of prod: time", RESOLVED)]


def test_rows_that_wait_are_reported_after_a_time_and_resolve_when_none_waited_for_as_long() -> None:
    job = Job()
    some = WaitingRows(size=3_000_000, since_ms=NOW)

    def seconds(count: int, rows: WaitingRows | None) -> list[tuple[str, AlertState]]:
        found = []
        for _ in range(count):
            if rows is not None:
                job.own.note_batch(replace(EMPTY_BATCH, waiting={"a": rows}))
            found += gathering(job, 1)
        return brief(found)

    assert seconds(20, some) == []
    assert seconds(1, NOTHING) == [], "a large log that was read for the first time"
    assert seconds(29, some) == []
    assert seconds(5, replace(some, size=5_000_000)) == [("log of a", FIRED)]
    fired = job.firing["log of a"]
    assert fired.evidence["waiting_bytes"] == 5_000_000
    assert "The metadata log of cluster a grows faster than kraftwatch evaluates it" in fired.summary
    assert seconds(25, NOTHING) == []
    assert seconds(5, some) == []
    assert seconds(1, NOTHING) == []
    assert seconds(30, None) == [("log of a", RESOLVED)]

    assert seconds(35, some) == [("log of a", FIRED)]
    job.restart()
    assert seconds(29, None) == [], "a job that was restarted sees first whether rows wait"
    assert seconds(10, some) == []
    job.clusters = ["b"]
    assert seconds(1, None) == [("log of a", RESOLVED)]


def logged(caplog: pytest.LogCaptureFixture, late_ms: int, *, seconds: int) -> list[str]:
    """Returns what a job logs whose batches are so late, one a second."""
    caplog.clear()
    lag = JobLag()
    with caplog.at_level(logging.WARNING):
        for second in range(seconds):
            at = Millis(1_000 * second)
            lag.batch_delivered(NOW + at - late_ms, now_ms=NOW + at, at=at)
    return caplog.messages


def test_job_that_stays_behind_asks_for_executors_every_ten_minutes(caplog: pytest.LogCaptureFixture) -> None:
    once = (
        "The job is behind: it evaluates observations 12 s after they were made. It needs more executors or cores "
        "(`master`), and as many `pipeline.partitions`."
    )
    assert logged(caplog, 12_000, seconds=LAG_LASTS_MS // 1_000 + 600) == [once]
    assert logged(caplog, 12_000, seconds=LAG_LASTS_MS // 1_000 + 601) == [once, once]


def test_job_that_keeps_up_or_catches_up_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, BEHIND_MS - 1, seconds=120) == []
    assert logged(caplog, 60_000, seconds=LAG_LASTS_MS // 1_000) == []
