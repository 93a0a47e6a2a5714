"""The silence file: what one process adds, every process reads; a damaged file keeps the silences active."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from connectors.delivery.silence_store import SilenceFile
from connectors.errors import UsageError
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence
from tests.unit.connectors.sinks.sink_alerts import NOON_MS

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def silence(name: str = "one", *, from_ms: int = 0, for_ms: int = HOUR_MS) -> Silence:
    starts = Millis(NOON_MS + from_ms)
    return Silence(
        id=name, rule="no-*", starts_at_ms=starts, ends_at_ms=Millis(starts + for_ms), author="eva", comment="disks"
    )


def test_added_silences_are_read_by_every_process(tmp_path: Path) -> None:
    assert SilenceFile(tmp_path / "silences.json").read() == ()
    SilenceFile(tmp_path / "silences.json").add(silence("one"), now_ms=NOON_MS)
    SilenceFile(tmp_path / "silences.json").add(silence("two"), now_ms=NOON_MS)
    assert SilenceFile(tmp_path / "silences.json").read() == (silence("one"), silence("two"))


def test_a_job_reads_a_change_at_its_next_call(tmp_path: Path) -> None:
    job, person = SilenceFile(tmp_path / "silences.json"), SilenceFile(tmp_path / "silences.json")
    assert job.current() == ()
    person.add(silence(), now_ms=NOON_MS)
    assert job.current() == (silence(),)
    person.end("one", now_ms=Millis(NOON_MS + 60_000))
    assert not job.current()[0].active(Millis(NOON_MS + 60_000))


def test_a_thread_that_calls_during_a_read_also_gets_the_change(tmp_path: Path) -> None:
    nested: list[tuple[Silence, ...]] = []

    class ReentrantSilenceFile(SilenceFile):
        """Is called again while it reads."""

        def read(self) -> tuple[Silence, ...]:
            if not nested:
                nested.append(())
                nested[0] = self.current()
            return super().read()

    SilenceFile(tmp_path / "silences.json").add(silence(), now_ms=NOON_MS)
    assert ReentrantSilenceFile(tmp_path / "silences.json").current() == (silence(),)
    assert nested == [(silence(),)]


def test_a_future_silence_is_ended_before_it_begins(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence(from_ms=HOUR_MS), now_ms=NOON_MS)
    file.end("one", now_ms=NOON_MS)
    assert not file.read()[0].active(Millis(NOON_MS + HOUR_MS))


def test_ending_an_unknown_silence_names_the_existing_ones(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence("over", from_ms=-2 * HOUR_MS), now_ms=NOON_MS)
    file.add(silence("runs"), now_ms=NOON_MS)
    for name in ("other", "over"):
        with pytest.raises(UsageError, match=f"no silence '{name}' to end; active or future silences: runs"):
            file.end(name, now_ms=NOON_MS)


def test_a_silence_that_ended_long_ago_is_dropped(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence("old"), now_ms=NOON_MS)
    file.add(silence("new", from_ms=40 * DAY_MS), now_ms=Millis(NOON_MS + 40 * DAY_MS))
    assert [one.id for one in file.read()] == ["new"]


def test_concurrent_additions_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: SilenceFile(path).add(silence(f"s{at}"), now_ms=NOON_MS), range(24)))
    assert {one.id for one in SilenceFile(path).read()} == {f"s{at}" for at in range(24)}


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{", "[" * 100_000, '{"version": 1, "silences": [{"id": "x"}]}', '{"silences": []}'),
        # Possibly written by hand: no alert could be matched.
        '{"version": 1, "silences": [{"id": "x", "rule": null, "starts_at_ms": 0, "ends_at_ms": 1, "author": "eva", '
        '"comment": ""}]}',
    ],
)
def test_a_damaged_file_is_reported_in_one_sentence_and_changes_nothing_for_the_job(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence(), now_ms=NOON_MS)
    known = file.current()
    (tmp_path / "silences.json").write_text(content)
    assert file.current() == known
    assert "The silences that were read before remain active." in caplog.text
    with pytest.raises(UsageError, match=r"silences\.json is damaged: remove it"):
        file.read()


def test_a_file_of_a_newer_version_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "silences.json").write_text('{"version": 2, "silences": []}')
    with pytest.raises(UsageError, match="written by a newer version of kraftwatch"):
        SilenceFile(tmp_path / "silences.json").add(silence(), now_ms=NOON_MS)
