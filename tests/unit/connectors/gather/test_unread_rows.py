"""The job falls behind: clusters that answer are observed less often until it has caught up."""

import logging
from pathlib import Path

import pytest

from connectors.errors import JournalError
from connectors.gather.unread_rows import MOST_SLOWDOWN, UnreadRows, unread_rows_of
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind


class Job:
    """Reads none of the waiting rows by itself; the gatherer updates each second."""

    def __init__(self, *, clusters: int = 1_000) -> None:
        self.now_s = 0.0
        self.waiting = 0
        self.rows = UnreadRows(self.unread, clusters=clusters, now=lambda: self.now_s)

    def unread(self) -> int:
        if self.waiting < 0:
            raise JournalError("there is no journal")
        return self.waiting

    def slowdowns(self, waiting: int, *, seconds: int) -> list[int]:
        """Returns the slowdown after each second."""
        self.waiting = waiting
        found: list[int] = []
        for _ in range(seconds):
            self.now_s += 1
            self.rows.update()
            found.append(self.rows.slowdown)
        return found


def test_batches_of_several_seconds_slow_nothing_down() -> None:
    assert set(Job().slowdowns(9_000, seconds=60)) == {1}


def test_observations_slow_down_and_return_step_by_step() -> None:
    job = Job()
    assert job.slowdowns(40_000, seconds=12) == [1] * 2 + [2] * 3 + [3] * 7
    assert MOST_SLOWDOWN == 3
    assert set(job.slowdowns(7_000, seconds=20)) == {3}, "neither many nor few"
    assert job.slowdowns(3_000, seconds=6)[-1] == 1


def test_rows_of_few_clusters_are_many_for_each() -> None:
    assert Job(clusters=300).slowdowns(4_000, seconds=20)[-1] == 3


def test_a_job_that_falls_behind_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        job = Job()
        for waiting in (40_000, 0, 40_000, 0, 40_000):
            job.slowdowns(waiting, seconds=30)
    assert [one.getMessage() for one in caplog.records] == [
        "The job reads rows more slowly than 1000 clusters make them (40 rows wait for each): they are polled less "
        "often until it has caught up."
    ]


def test_a_journal_that_cannot_be_read_yet_changes_nothing() -> None:
    assert set(Job().slowdowns(-1, seconds=20)) == {1}


def test_rows_wait_until_the_job_has_committed_them(tmp_path: Path) -> None:
    unread = unread_rows_of(tmp_path)
    with pytest.raises(JournalError):
        unread()
    row = Observation(
        cluster="a",
        kind=ObservationKind.PROBE,
        observed_at_ms=1,
        base_offset=None,
        last_offset=None,
        leader_epoch=None,
        high_watermark=None,
        payload=b"{}",
    )
    with JournalWriter(tmp_path) as journal:
        journal.append([row] * 5)
        assert unread() == 0, "not published"
        journal.publish()
        assert unread() == 5
        JournalReader(tmp_path).commit(3)
        assert unread() == 2
