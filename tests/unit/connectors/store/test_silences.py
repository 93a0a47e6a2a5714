"""Silences: what one process adds, every process reads; a damaged database keeps the silences active."""

from pathlib import Path

import pytest

from connectors.errors import StoreError, UsageError
from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from tests.unit.connectors.sinks.sink_alerts import NOON_MS

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def stored(folder: Path) -> SilenceStore:
    return SilenceStore(job_database(folder))


def silence(name: str = "one", *, from_ms: int = 0, for_ms: int = HOUR_MS) -> Silence:
    starts = Millis(NOON_MS + from_ms)
    return Silence(
        id=name, rule="no-*", starts_at_ms=starts, ends_at_ms=Millis(starts + for_ms), author="eva", comment="disks"
    )


def test_a_job_reads_a_change_at_its_next_call(tmp_path: Path) -> None:
    job, person = stored(tmp_path), stored(tmp_path)
    assert job.current() == ()
    person.add(silence(), now_ms=NOON_MS)
    assert job.current() == (silence(),)
    person.end("one", now_ms=Millis(NOON_MS + 60_000))
    assert not job.current()[0].active(Millis(NOON_MS + 60_000))


def test_silences_are_listed_in_the_order_of_their_beginning(tmp_path: Path) -> None:
    stored(tmp_path).add(silence("later", from_ms=HOUR_MS), silence("sooner"), now_ms=NOON_MS)
    assert [one.id for one in stored(tmp_path).read()] == ["sooner", "later"]


def test_silences_of_one_id_are_ended_together(tmp_path: Path) -> None:
    stored(tmp_path).add(silence(), silence(), silence("two"), now_ms=NOON_MS)
    assert stored(tmp_path).end("one", now_ms=NOON_MS) == (silence(), silence())
    assert [one.id for one in stored(tmp_path).read() if one.active(NOON_MS)] == ["two"]


def test_a_future_silence_is_ended_before_it_begins(tmp_path: Path) -> None:
    stored(tmp_path).add(silence(from_ms=HOUR_MS), now_ms=NOON_MS)
    stored(tmp_path).end("one", now_ms=NOON_MS)
    ended = stored(tmp_path).read()[0]
    assert not ended.active(Millis(NOON_MS + HOUR_MS))
    assert ended.starts_at_ms == ended.ends_at_ms == NOON_MS


def test_ending_an_unknown_silence_names_the_existing_ones(tmp_path: Path) -> None:
    stored(tmp_path).add(silence("over", from_ms=-2 * HOUR_MS), now_ms=NOON_MS)
    stored(tmp_path).add(silence("runs"), now_ms=NOON_MS)
    for name in ("other", "over"):
        with pytest.raises(UsageError, match=f"no silence '{name}' to end; active or future silences: runs"):
            stored(tmp_path).end(name, now_ms=NOON_MS)


def test_a_silence_that_ended_long_ago_is_dropped(tmp_path: Path) -> None:
    stored(tmp_path).add(silence("old"), now_ms=NOON_MS)
    stored(tmp_path).add(silence("new", from_ms=40 * DAY_MS), now_ms=Millis(NOON_MS + 40 * DAY_MS))
    assert [one.id for one in stored(tmp_path).read()] == ["new"]


def test_a_damaged_database_changes_nothing_for_a_running_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = stored(tmp_path)
    job.add(silence(), now_ms=NOON_MS)
    known = job.current()

    def damaged() -> tuple[Silence, ...]:
        raise StoreError("kraftwatch.db cannot be used: database disk image is malformed")

    monkeypatch.setattr(job, "read", damaged)
    assert job.current() == known
    assert "the silences that were read before remain active" in caplog.text
