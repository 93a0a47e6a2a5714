"""JournalReader: ranges, the index, commits, waiting, and errors."""

import pickle
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalError
from connectors.journal import position_file
from connectors.journal.position_file import JournalPosition
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from tests.unit.connectors.journal.journal_rows import poll


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2000 rows of 1 kB in several segments, each with several index entries."""
    directory = tmp_path_factory.mktemp("large")
    with JournalWriter(directory, segment_bytes=512 * 1024) as writer:
        for at in range(400):
            writer.append([poll(at * 5 + more, payload=b"%d" % at * 300) for more in range(5)])
            writer.publish()
    return directory


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 2000))
def test_reading_any_range_twice_gives_the_same_rows(large: Path, one: int, other: int) -> None:
    start, end = sorted((one, other))
    rows = list(JournalReader(large).read(start, end))
    assert [row.sequence for row in rows] == list(range(start, end))
    assert [row.observed_at_ms for row in rows] == list(range(start, end))
    assert list(JournalReader(large).read(start, end)) == rows


@pytest.mark.parametrize("broken", ["missing", "noise", "shifted"])
def test_a_missing_or_wrong_index_does_not_change_what_is_read(large: Path, tmp_path: Path, broken: str) -> None:
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
    assert [row.sequence for row in JournalReader(tmp_path).read(777, 1501)] == list(range(777, 1501))


def test_a_segment_has_an_index_entry_every_64_kib(large: Path) -> None:
    index = sorted(large.glob("*.idx"))[0]
    assert 4 * 16 <= index.stat().st_size <= 8 * 16


def test_a_reader_can_be_pickled(large: Path) -> None:
    assert pickle.loads(pickle.dumps(JournalReader(large))) == JournalReader(large)


def test_a_missing_journal_or_row_is_reported_in_one_sentence(large: Path, tmp_path: Path) -> None:
    assert not JournalReader(tmp_path).created
    assert JournalReader(large).created
    for query in (
        JournalReader(tmp_path).published_end,
        JournalReader(tmp_path).first_sequence,
        JournalReader(tmp_path / "no").first_sequence,
    ):
        with pytest.raises(JournalError, match="holds no journal"):
            query()
    with pytest.raises(JournalError, match="holds no journal"):
        JournalReader(tmp_path).wait_beyond(0, 0)
    with pytest.raises(JournalError, match="it ends at 2000: the checkpoint belongs to another journal"):
        list(JournalReader(large).read(1999, 2001))
    with pytest.raises(JournalError, match="it ends at 2000"):
        JournalReader(large).commit(2001)


def test_rows_that_are_no_longer_kept_are_refused(tmp_path: Path) -> None:
    with JournalWriter(tmp_path, segment_bytes=200, keep_bytes=0) as writer:
        for at in range(20):
            writer.append([poll(at)])
            JournalReader(tmp_path).commit(writer.publish())
    first = JournalReader(tmp_path).first_sequence()
    assert first > 0
    with pytest.raises(JournalError, match=f"Row 0 of .* is no longer kept: it begins at {first}"):
        list(JournalReader(tmp_path).read(0, 20))


def test_a_row_missing_below_the_published_end_is_reported_as_damage(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at) for at in range(3)])
        writer.publish()
        journal_id = writer.journal_id
    position_file.write(tmp_path / "published", JournalPosition(journal_id=journal_id, sequence=4))
    with pytest.raises(JournalError, match="row 3 is missing"):
        list(JournalReader(tmp_path).read(0, 4))


def test_a_commit_only_moves_forward_and_counts_for_its_own_journal_only(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at) for at in range(5)])
    journal = JournalReader(tmp_path)
    assert journal.committed_end() == 0
    journal.commit(3)
    journal.commit(2)
    assert journal.committed_end() == 3
    position_file.write(tmp_path / "committed", JournalPosition(journal_id="00" * 16, sequence=5))
    assert journal.committed_end() == 0


def test_waiting_ends_when_a_row_is_published_or_at_the_timeout(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll()])
        writer.publish()
        journal = JournalReader(tmp_path)
        assert journal.wait_beyond(0, 30) == 1
        before = time.monotonic()
        assert journal.wait_beyond(1, 0.02) == 1
        assert time.monotonic() - before >= 0.02
        ends: list[int] = []
        waiting = threading.Thread(target=lambda: ends.append(journal.wait_beyond(1, 30)))
        waiting.start()
        writer.append([poll()])
        writer.publish()
        waiting.join(30)
        assert ends == [2]
