"""What a reader can rely on."""

import pickle
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalError
from connectors.journal import position_file
from connectors.journal.position_file import Mark
from connectors.journal.reader import Journal
from connectors.journal.writer import Recorder
from tests.unit.connectors.journal.journal_rows import poll


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2000 rows of 1 kB in several segments, each with several index entries."""
    directory = tmp_path_factory.mktemp("large")
    with Recorder(directory, segment_bytes=512 * 1024) as recorder:
        for at in range(400):
            recorder.append([poll(at * 5 + more, payload=b"%d" % at * 300) for more in range(5)])
            recorder.publish()
    return directory


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 2000))
def test_any_range_reads_the_same_again(large: Path, one: int, other: int) -> None:
    start, end = sorted((one, other))
    rows = list(Journal(large).read(start, end))
    assert [row.sequence for row in rows] == list(range(start, end))
    assert [row.observed_at_ms for row in rows] == list(range(start, end))
    assert list(Journal(large).read(start, end)) == rows


@pytest.mark.parametrize("broken", ["missing", "noise", "shifted"])
def test_the_index_is_never_trusted(large: Path, tmp_path: Path, broken: str) -> None:
    for path in large.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    indexes = list(tmp_path.glob("*.idx"))
    assert indexes
    for index in indexes:
        content = index.read_bytes()
        index.unlink()
        if broken == "noise":
            index.write_bytes(b"\x01" * len(content))
        if broken == "shifted":
            index.write_bytes(content[8:])
    assert [row.sequence for row in Journal(tmp_path).read(777, 1501)] == list(range(777, 1501))


def test_the_index_spares_a_reader_the_rows_before(large: Path) -> None:
    index = sorted(large.glob("*.idx"))[0]
    assert 4 * 16 <= index.stat().st_size <= 8 * 16


def test_a_reader_is_pickled_by_its_path(large: Path) -> None:
    assert pickle.loads(pickle.dumps(Journal(large))) == Journal(large)


def test_what_is_not_there_is_one_sentence(large: Path, tmp_path: Path) -> None:
    assert not Journal(tmp_path).created
    assert Journal(large).created
    for ask in (Journal(tmp_path).published, Journal(tmp_path).first, Journal(tmp_path / "no").first):
        with pytest.raises(JournalError, match="holds no journal"):
            ask()
    with pytest.raises(JournalError, match="holds no journal"):
        Journal(tmp_path).wait_beyond(0, 0)
    with pytest.raises(JournalError, match="it ends at 2000: the checkpoint belongs to another journal"):
        list(Journal(large).read(1999, 2001))
    with pytest.raises(JournalError, match="it ends at 2000"):
        Journal(large).commit(2001)


def test_rows_that_are_no_longer_kept_are_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path, segment_bytes=200, keep_bytes=0) as recorder:
        for at in range(20):
            recorder.append([poll(at)])
            Journal(tmp_path).commit(recorder.publish())
    first = Journal(tmp_path).first()
    assert first > 0
    with pytest.raises(JournalError, match=f"Row 0 of .* is no longer kept: it begins at {first}"):
        list(Journal(tmp_path).read(0, 20))


def test_a_row_missing_below_the_published_end_is_damage(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.append([poll(at) for at in range(3)])
        recorder.publish()
        journal_id = recorder.journal_id
    position_file.write(tmp_path / "published", Mark(journal_id=journal_id, sequence=4))
    with pytest.raises(JournalError, match="row 3 is missing"):
        list(Journal(tmp_path).read(0, 4))


def test_commit_only_goes_forward_and_is_this_journals(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.append([poll(at) for at in range(5)])
    journal = Journal(tmp_path)
    assert journal.committed() == 0
    journal.commit(3)
    journal.commit(2)
    assert journal.committed() == 3
    position_file.write(tmp_path / "committed", Mark(journal_id="00" * 16, sequence=5))
    assert journal.committed() == 0


def test_waiting_ends_with_what_comes_or_with_the_timeout(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.append([poll()])
        recorder.publish()
        journal = Journal(tmp_path)
        assert journal.wait_beyond(0, 30) == 1
        before = time.monotonic()
        assert journal.wait_beyond(1, 0.02) == 1
        assert time.monotonic() - before >= 0.02
        answers: list[int] = []
        waiting = threading.Thread(target=lambda: answers.append(journal.wait_beyond(1, 30)))
        waiting.start()
        recorder.append([poll()])
        recorder.publish()
        waiting.join(30)
        assert answers == [2]
