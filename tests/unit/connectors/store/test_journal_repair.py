"""Repair of a journal: what can be read is kept; logs are read again from the start."""

from pathlib import Path

import pytest

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import journal_damage, journal_file, readable_journal, replace_journal
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.sqlite_file import FILE_SUFFIXES
from tests.unit.connectors.store.journal_rows import progress_of

NOW = 1_800_000_000_000
PAGE = 4_096


def row(offset: int, cluster: str = "prod") -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=NOW + offset,
        last_offset=offset,
        leader_epoch=3,
        high_watermark=offset + 1,
        payload=b"<%04d>" % offset * 70,
    )


def recorded(folder: Path, rows: int) -> str:
    with JournalWriter(folder) as writer:
        writer.append([row(at) for at in range(rows)])
        JournalReader(folder).commit(writer.publish())
        return writer.journal_id


def damage_page_of(folder: Path, offset: int) -> None:
    """Overwrites the page that holds this row."""
    content = bytearray(journal_file(folder).read_bytes())
    page = content.index(b"<%04d>" % offset) // PAGE * PAGE
    content[page : page + PAGE] = b"\xff" * PAGE
    journal_file(folder).write_bytes(content)


def test_the_rows_after_a_damaged_page_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    journal_id = recorded(folder, 100)
    damage_page_of(folder, 40)
    assert journal_damage(folder) is not None
    readable = readable_journal(folder)
    assert readable is not None
    assert 40 < readable.first < 60
    assert not readable.complete

    replace_journal(folder, readable, kept=folder / "observations.db.damaged-1", journal_id=None, at_least=0)

    assert journal_damage(folder) is None
    journal = JournalReader(folder)
    assert (journal.journal_id, journal.published_end(), journal.committed_end()) == (journal_id, 100, 100)
    assert [each.last_offset for each in journal.read(readable.first, 100)] == list(range(readable.first, 100))
    assert journal.first_sequence() == readable.first
    with JournalWriter(folder) as writer:
        assert progress_of(writer, "prod").next_offset == 100
    assert journal_damage(folder) is None
    assert {path.name for path in folder.iterdir()} == {
        "lock",
        "observations.db",
        "observations.db.damaged-1",
    } | {f"observations.db{suffix}" for suffix in FILE_SUFFIXES}


@pytest.mark.parametrize("content", [b"", b"\0" * PAGE, b"no database" * 1000])
def test_numbers_continue_in_a_journal_of_which_nothing_can_be_read(tmp_path: Path, content: bytes) -> None:
    journal_id = recorded(tmp_path, 5)
    journal_file(tmp_path).write_bytes(content)
    assert journal_damage(tmp_path) is not None
    assert readable_journal(tmp_path) is None

    replace_journal(tmp_path, None, kept=tmp_path / "kept", journal_id=journal_id, at_least=5)

    journal = JournalReader(tmp_path)
    assert (journal.journal_id, journal.first_sequence(), journal.published_end()) == (journal_id, 5, 5)
    assert (tmp_path / "kept").read_bytes() == content
    with JournalWriter(tmp_path) as writer:
        assert writer.read_logs_again() == 5
    assert (journal.complete, journal.beginning()) == (True, 5)


def test_a_damaged_last_page_leaves_nothing_to_continue_with(tmp_path: Path) -> None:
    recorded(tmp_path, 100)
    damage_page_of(tmp_path, 99)
    found = readable_journal(tmp_path)
    assert found is None or found.first == found.end


def test_logs_are_read_again_from_the_start(tmp_path: Path) -> None:
    recorded(tmp_path, 4)
    with JournalWriter(tmp_path) as writer:
        assert progress_of(writer, "prod").next_offset == 4
        assert writer.read_logs_again() == 4
        writer.append([row(0)])
    reader = JournalReader(tmp_path)
    assert (reader.first_sequence(), reader.beginning(), reader.complete) == (0, 4, True)
    assert [each.last_offset for each in reader.read(0, 5)] == [0, 1, 2, 3, 0]
    # A crash right after it changes nothing.
    with JournalWriter(tmp_path) as writer:
        position = progress_of(writer, "prod")
        assert (position.next_offset, position.observed_at_ms) == (1, NOW + 3)


@pytest.mark.parametrize(("clock_ms", "earliest_ms"), [(-7_200_000, -7_200_000), (7_200_000, 3)])
def test_rows_after_a_wrong_clock_begin_with_the_right_time_but_never_after_those_before(
    tmp_path: Path, clock_ms: int, earliest_ms: int
) -> None:
    recorded(tmp_path, 4)
    with JournalWriter(tmp_path) as writer:
        writer.read_logs_again(now_ms=NOW + clock_ms)
    with JournalWriter(tmp_path) as writer:
        position = progress_of(writer, "prod")
    assert (position.next_offset, position.observed_at_ms) == (None, NOW + earliest_ms)


def test_a_journal_that_was_trimmed_beyond_the_repair_begins_with_its_oldest_row(tmp_path: Path) -> None:
    recorded(tmp_path, 4)
    with JournalWriter(tmp_path) as writer:
        writer.read_logs_again()
    recorded(tmp_path, 6)
    with JournalWriter(tmp_path, keep_bytes=0):
        pass
    reader = JournalReader(tmp_path)
    assert (reader.first_sequence(), reader.beginning(), reader.complete) == (10, 10, False)


def test_a_trimmed_journal_is_complete_after_the_logs_are_read_again(tmp_path: Path) -> None:
    recorded(tmp_path, 20)
    reader = JournalReader(tmp_path)
    with JournalWriter(tmp_path, keep_s=0.005):
        assert reader.first_sequence() == 14
    assert (reader.complete, reader.beginning()) == (False, 14)
    with JournalWriter(tmp_path) as writer:
        writer.read_logs_again()
    assert (reader.complete, reader.beginning()) == (True, 20)
