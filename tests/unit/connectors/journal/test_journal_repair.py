"""Repair of a journal: its position file is restored from the segments; logs are read again from the start."""

from pathlib import Path

import pytest

from connectors.errors import JournalError
from connectors.journal import position_file, segment
from connectors.journal.position_file import JournalPosition
from connectors.journal.position_repair import lower_committed, published_damage, restore_published
from connectors.journal.reader import COMMITTED, PUBLISHED, RESTART, JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind

NOW = 1_800_000_000_000


def row(offset: int, cluster: str = "prod") -> Observation:
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=NOW + offset,
        last_offset=offset,
        leader_epoch=3,
        high_watermark=offset + 1,
    )


def recorded(folder: Path, rows: int, **options: int) -> str:
    with JournalWriter(folder, **options) as writer:
        for at in range(rows):
            writer.append([row(at)])
            JournalReader(folder).commit(writer.publish())
        return writer.journal_id


@pytest.mark.parametrize("how", ["deleted", "damaged"])
def test_the_sentence_about_a_lost_position_file_names_file_and_command(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "checkpoint" / "journal"
    recorded(folder, 3)
    path = folder / PUBLISHED
    path.unlink() if how == "deleted" else path.write_bytes(bytes(600))
    command = f"run `kraftwatch checkpoint repair --checkpoint {tmp_path / 'checkpoint'}`"

    with pytest.raises(JournalError) as read:
        JournalReader(folder).published_end()
    with pytest.raises(JournalError) as opened, JournalWriter(folder):
        raise AssertionError("opened a journal without its position")

    for error in (read, opened):
        assert str(path) in str(error.value)
        assert command in str(error.value)


def test_the_position_file_is_restored_with_every_synced_row(tmp_path: Path) -> None:
    journal_id = recorded(tmp_path, 20, segment_bytes=300)
    (tmp_path / PUBLISHED).unlink()
    assert published_damage(tmp_path) == "it is missing beside the journal's segments"

    restore_published(tmp_path)

    assert published_damage(tmp_path) is None
    with JournalWriter(tmp_path) as writer:
        assert (writer.journal_id, writer.published_end) == (journal_id, 20)
    assert [each.last_offset for each in JournalReader(tmp_path).read(0, 20)] == list(range(20))


def test_rows_that_were_committed_are_not_taken_for_a_torn_end(tmp_path: Path) -> None:
    recorded(tmp_path, 5)
    (tmp_path / PUBLISHED).unlink()
    (last,) = tmp_path.glob("*.seg")
    content = bytearray(last.read_bytes())
    content[-3] ^= 1
    last.write_bytes(bytes(content))
    assert position_file.read(tmp_path / COMMITTED) is not None

    restore_published(tmp_path)

    with pytest.raises(JournalError, match="is damaged at byte"), JournalWriter(tmp_path):
        raise AssertionError("opened a damaged journal")


def test_an_intact_journal_needs_no_repair(tmp_path: Path) -> None:
    assert published_damage(tmp_path / "none") is None
    assert published_damage(tmp_path) is None
    recorded(tmp_path, 3)
    assert published_damage(tmp_path) is None


def test_logs_are_read_again_from_the_start(tmp_path: Path) -> None:
    recorded(tmp_path, 4)
    with JournalWriter(tmp_path) as writer:
        position = writer.follow_progress("prod")
        assert position is not None
        assert position.next_offset == 4
        assert writer.read_logs_again() == 4
        writer.append([row(0)])
    reader = JournalReader(tmp_path)
    assert (reader.first_sequence(), reader.beginning(), reader.complete) == (0, 4, True)
    assert [each.last_offset for each in reader.read(0, 5)] == [0, 1, 2, 3, 0]
    # A crash right after it changes nothing.
    with JournalWriter(tmp_path) as writer:
        position = writer.follow_progress("prod")
        assert position is not None
        assert (position.next_offset, position.observed_at_ms) == (1, NOW + 3)


def test_rows_after_a_wrong_clock_begin_with_the_right_time(tmp_path: Path) -> None:
    recorded(tmp_path, 4)
    with JournalWriter(tmp_path) as writer:
        writer.read_logs_again(now_ms=NOW - 7_200_000)
    with JournalWriter(tmp_path) as writer:
        position = writer.follow_progress("prod")
        assert position is not None
        assert (position.next_offset, position.observed_at_ms) == (None, NOW - 7_200_000)


@pytest.mark.parametrize("rows", [0, 3])
def test_logs_can_be_read_again_twice(tmp_path: Path, rows: int) -> None:
    recorded(tmp_path, rows)
    for _ in range(2):
        with JournalWriter(tmp_path) as writer:
            assert writer.read_logs_again() == rows
    recorded(tmp_path, 2)
    assert len(segment.first_sequences(tmp_path)) == (2 if rows else 1)
    assert JournalReader(tmp_path).published_end() == rows + 2


def test_a_trimmed_journal_is_complete_after_the_logs_are_read_again(tmp_path: Path) -> None:
    recorded(tmp_path, 20, segment_bytes=200, keep_bytes=300)
    reader = JournalReader(tmp_path)
    assert reader.first_sequence() > 0
    assert (reader.complete, reader.beginning()) == (False, reader.first_sequence())
    with JournalWriter(tmp_path) as writer:
        writer.read_logs_again()
    assert (reader.complete, reader.beginning()) == (True, 20)


def test_a_restart_position_of_another_journal_is_ignored(tmp_path: Path) -> None:
    recorded(tmp_path, 20, segment_bytes=200, keep_bytes=300)
    position_file.write(tmp_path / RESTART, JournalPosition(journal_id="ab" * 16, sequence=19))
    reader = JournalReader(tmp_path)
    assert (reader.complete, reader.beginning()) == (False, reader.first_sequence())


def test_a_journal_with_a_damaged_restart_position_is_not_complete(tmp_path: Path) -> None:
    recorded(tmp_path, 3)
    (tmp_path / RESTART).write_bytes(bytes(600))
    assert JournalReader(tmp_path).complete is False


def test_rows_that_are_read_again_are_not_deleted(tmp_path: Path) -> None:
    recorded(tmp_path, 20, segment_bytes=200)
    reader = JournalReader(tmp_path)
    assert reader.committed_end() == 20

    lower_committed(tmp_path, 7)
    lower_committed(tmp_path, 15)

    assert reader.committed_end() == 7
    with JournalWriter(tmp_path, segment_bytes=200, keep_bytes=300):
        assert [each.last_offset for each in reader.read(7, 20)] == list(range(7, 20))
    assert reader.first_sequence() > 0
