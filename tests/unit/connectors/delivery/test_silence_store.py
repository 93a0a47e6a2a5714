"""The file of silences: what is added is read, by the same process and by others, and damage wakes nobody."""

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


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    assert SilenceFile(tmp_path / "silences.json").read() == ()
    SilenceFile(tmp_path / "silences.json").add(silence("one"), now_ms=NOON_MS)
    SilenceFile(tmp_path / "silences.json").add(silence("two"), now_ms=NOON_MS)
    assert SilenceFile(tmp_path / "silences.json").read() == (silence("one"), silence("two"))


def test_a_job_sees_a_change_at_its_next_look(tmp_path: Path) -> None:
    job, person = SilenceFile(tmp_path / "silences.json"), SilenceFile(tmp_path / "silences.json")
    assert job.newest() == ()
    person.add(silence(), now_ms=NOON_MS)
    assert job.newest() == (silence(),)
    person.end("one", now_ms=Millis(NOON_MS + 60_000))
    assert not job.newest()[0].active(Millis(NOON_MS + 60_000))


def test_a_thread_that_asks_while_another_reads_hears_of_the_change_too(tmp_path: Path) -> None:
    heard: list[tuple[Silence, ...]] = []

    class Asked(SilenceFile):
        """Is asked once more while it reads."""

        def read(self) -> tuple[Silence, ...]:
            if not heard:
                heard.append(())
                heard[0] = self.newest()
            return super().read()

    SilenceFile(tmp_path / "silences.json").add(silence(), now_ms=NOON_MS)
    assert Asked(tmp_path / "silences.json").newest() == (silence(),)
    assert heard == [(silence(),)]


def test_one_that_lay_ahead_is_ended_before_it_begins(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence(from_ms=HOUR_MS), now_ms=NOON_MS)
    file.end("one", now_ms=NOON_MS)
    assert not file.read()[0].active(Millis(NOON_MS + HOUR_MS))


def test_ending_what_there_is_not_names_what_there_is(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence("over", from_ms=-2 * HOUR_MS), now_ms=NOON_MS)
    file.add(silence("runs"), now_ms=NOON_MS)
    for name in ("other", "over"):
        with pytest.raises(UsageError, match=f"no silence '{name}' to end; those that have not ended: runs"):
            file.end(name, now_ms=NOON_MS)


def test_one_that_ended_long_ago_is_dropped(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence("old"), now_ms=NOON_MS)
    file.add(silence("new", from_ms=40 * DAY_MS), now_ms=Millis(NOON_MS + 40 * DAY_MS))
    assert [one.id for one in file.read()] == ["new"]


def test_many_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: SilenceFile(path).add(silence(f"s{at}"), now_ms=NOON_MS), range(24)))
    assert {one.id for one in SilenceFile(path).read()} == {f"s{at}" for at in range(24)}


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{", '{"version": 1, "silences": [{"id": "x"}]}', '{"silences": []}'),
        # As somebody may write it by hand: no alert could be held against it.
        '{"version": 1, "silences": [{"id": "x", "rule": null, "starts_at_ms": 0, "ends_at_ms": 1, "author": "eva", '
        '"comment": ""}]}',
    ],
)
def test_a_damaged_file_is_one_sentence_for_people_and_changes_nothing_for_the_job(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    file.add(silence(), now_ms=NOON_MS)
    known = file.newest()
    (tmp_path / "silences.json").write_text(content)
    assert file.newest() == known
    assert "The silences that were known before go on." in caplog.text
    with pytest.raises(UsageError, match=r"silences\.json is damaged: remove it"):
        file.read()


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "silences.json").write_text('{"version": 2, "silences": []}')
    with pytest.raises(UsageError, match="written by a newer kraftwatch"):
        SilenceFile(tmp_path / "silences.json").add(silence(), now_ms=NOON_MS)
