"""A job that is behind says so."""

import logging

import pytest

from rules.model.identifiers import Millis
from streaming.job.own_alerts import BEHIND_MS, LAG_LASTS_MS, JobLag

NOW_MS = 1_800_000_000_000


def logged(caplog: pytest.LogCaptureFixture, late_ms: int, *, seconds: int) -> list[str]:
    """Returns what a job logs whose batches are so late, one a second."""
    caplog.clear()
    lag = JobLag()
    with caplog.at_level(logging.WARNING):
        for second in range(seconds):
            at_ms = Millis(1_000 * second)
            lag.batch_delivered(NOW_MS + at_ms - late_ms, now_ms=NOW_MS + at_ms, at_ms=at_ms)
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
