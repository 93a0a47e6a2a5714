"""JournalWriter: order, recovery, refused journals, retention, and the follow position after a restart."""

import errno
import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalError, JournalInUseError
from connectors.journal import position_file, segment
from connectors.journal.position_file import JournalPosition
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation
from tests.unit.connectors.journal.journal_rows import batch, poll, records


def written(directory: Path, rows: int, *, segment_bytes: int = 1 << 20) -> list[Observation]:
    with JournalWriter(directory, segment_bytes=segment_bytes) as writer:
        for at in range(rows):
            writer.append([poll(at * 1000, payload=b"%d" % at)])
            writer.publish()
    return list(JournalReader(directory).read(0, rows))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.seg"))


def test_rows_get_a_sequence_and_are_visible_only_when_published(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        journal = JournalReader(tmp_path)
        writer.append([poll(1), poll(2)])
        assert journal.published_end() == 0
        assert writer.publish() == 2
        writer.append([poll(3)])
        assert journal.published_end() == 2
        assert [(row.sequence, row.observed_at_ms) for row in journal.read(0, 2)] == [(0, 1), (1, 2)]
    # Leaving the context without an error publishes the appended rows.
    assert [row.observed_at_ms for row in journal.read(0, 3)] == [1, 2, 3]


def test_an_error_inside_the_context_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), JournalWriter(tmp_path) as writer:
        writer.append([poll()])
        raise RuntimeError
    assert JournalReader(tmp_path).published_end() == 0


def test_rows_are_synced_to_disk_before_they_are_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def record_calls(name: str) -> None:
        real = getattr(os, name)

        def recording(*args: object) -> object:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, recording)

    with JournalWriter(tmp_path, segment_bytes=1) as writer:
        writer.append([poll()])
        for name in ("write", "fdatasync", "pwrite", "fsync"):
            record_calls(name)
        writer.publish()
    # The rows are synced before the position is written; the position is synced before a new segment begins.
    assert calls[:5] == ["write", "fdatasync", "pwrite", "pwrite", "fsync"]
    # The new segment's header is synced before the rename, and the folder after it.
    assert calls[5:] == ["write", "fsync", "fsync"]


def test_publishing_nothing_writes_nothing(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        before = (tmp_path / "published").read_bytes()
        assert writer.publish() == 0
        assert (tmp_path / "published").read_bytes() == before


def test_a_large_append_is_written_to_the_file_before_it_is_published(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(payload=bytes(5 << 20))])
        assert segments(tmp_path)[0].stat().st_size > 5 << 20
        assert JournalReader(tmp_path).published_end() == 0
        writer.append([poll(payload=b"small")])
        writer.publish()
    assert [len(row.payload) for row in JournalReader(tmp_path).read(0, 2)] == [5 << 20, 5]


def test_a_second_writer_is_refused_while_the_lock_is_held(tmp_path: Path) -> None:
    in_use = f"still in use after 0.1 s by process {os.getpid()}"
    with JournalWriter(tmp_path), pytest.raises(JournalInUseError, match=in_use):
        JournalWriter(tmp_path, lock_timeout_s=0.1).__enter__()
    with JournalWriter(tmp_path, lock_timeout_s=0):
        pass


def test_a_reopened_journal_keeps_its_id_and_its_sequence(tmp_path: Path) -> None:
    first = written(tmp_path, 3)
    with JournalWriter(tmp_path) as writer:
        assert writer.journal_id == JournalReader(tmp_path).journal_id
        assert writer.published_end == 3
        writer.append([poll(9_000)])
    assert list(JournalReader(tmp_path).read(0, 3)) == first
    assert JournalReader(tmp_path).published_end() == 4


def test_recovery_keeps_whole_rows_that_were_not_yet_published(tmp_path: Path) -> None:
    rows = written(tmp_path, 5)
    # As after a crash between sync and publication: the published position is 3, all five rows are on disk.
    _set_published(tmp_path, sequence=3)
    with JournalWriter(tmp_path) as writer:
        assert writer.published_end == 5
    assert list(JournalReader(tmp_path).read(0, 5)) == rows


def test_only_the_owner_can_access_the_folder_and_its_files(tmp_path: Path) -> None:
    written(tmp_path / "journal", 3, segment_bytes=100)
    assert (tmp_path / "journal").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "journal").iterdir())


def test_segment_headers_keep_the_keys_of_the_file_format(tmp_path: Path) -> None:
    written(tmp_path, 3, segment_bytes=100)
    newest = segments(tmp_path)[-1].read_bytes()
    length = int.from_bytes(newest[4:8], "big")
    header = json.loads(newest[12 : 12 + length])
    assert newest[:4] == b"KWS1"
    assert header.keys() == {"journal_id", "first", "progress"}
    assert header["progress"]["alpha"]["observed_at_ms"] == 2_000


# -- torn tails and damage -------------------------------------------------------------------------------------


def _position_after(directory: Path, sequence: int) -> int:
    """The byte offset at which row `sequence` begins in the only segment."""
    if sequence == 0:
        with segments(directory)[0].open("rb") as file:
            return segment.read_header(file, segments(directory)[0]).rows_at
    journal_id = JournalReader(directory).journal_id
    return [after for after, row in segment.read_rows(directory, 0, 0, journal_id) if row.sequence < sequence][-1]


def _set_published(directory: Path, *, sequence: int) -> None:
    position_file.write(
        directory / "published", JournalPosition(journal_id=JournalReader(directory).journal_id, sequence=sequence)
    )


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["cut", "zeros", "noise"]), st.integers(0, 7))
def test_a_torn_tail_is_cut_off_and_damage_below_it_is_refused(where: int, how: str, published: int) -> None:
    """The file is damaged at any byte: rows before it stay, and a lost published row is always reported."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        rows = written(directory, 8)
        begins = [_position_after(directory, sequence) for sequence in range(9)]
        _set_published(directory, sequence=published)
        path = segments(directory)[0]
        content = path.read_bytes()
        at = begins[0] + where % (len(content) - begins[0])
        tail = {"cut": b"", "zeros": bytes(len(content) - at), "noise": b"\xff" * (len(content) - at)}[how]
        path.write_bytes(content[:at] + tail)
        whole = max(sequence for sequence in range(9) if begins[sequence] <= at)
        if whole < published:
            with pytest.raises(JournalError, match=f"{path} is damaged at byte {begins[whole]} "):
                JournalWriter(directory).__enter__()
            return
        with JournalWriter(directory) as writer:
            assert writer.published_end == whole
            writer.append([poll(99_000)])
        assert [row.payload for row in JournalReader(directory).read(0, whole)] == [row.payload for row in rows[:whole]]
        assert [row.observed_at_ms for row in JournalReader(directory).read(whole, whole + 1)] == [99_000]


def test_a_torn_tail_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path, 2)
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b"torn")
    with JournalWriter(tmp_path):
        pass
    assert "4 bytes of an incomplete row" in caplog.text


def test_damage_in_an_uncommitted_sealed_segment_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 9, segment_bytes=200)
    damaged = segments(tmp_path)[1]
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(JournalError, match=rf"{damaged} is damaged at byte \d+ .*CRC"):
        JournalWriter(tmp_path).__enter__()
    # Below the committed position the writer ignores it; a reader of these rows reports it.
    JournalReader(tmp_path).commit(9)
    with JournalWriter(tmp_path, segment_bytes=200):
        pass
    with pytest.raises(JournalError, match=str(damaged)):
        list(JournalReader(tmp_path).read(0, 9))


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [("published", "published is missing"), ("*.seg", "has lost its segments"), ("00000000000000000000.seg", "")],
)
def test_a_missing_file_is_detected(tmp_path: Path, missing: str, sentence: str) -> None:
    written(tmp_path, 9, segment_bytes=200)
    for path in tmp_path.glob(missing):
        path.unlink()
    if sentence:
        with pytest.raises(JournalError, match=sentence):
            JournalWriter(tmp_path).__enter__()
    else:
        # Retention deletes the oldest segment too, so its absence is no error.
        with JournalWriter(tmp_path):
            assert JournalReader(tmp_path).first_sequence() > 0


def test_a_missing_newest_segment_is_detected(tmp_path: Path) -> None:
    written(tmp_path, 9, segment_bytes=200)
    for path in segments(tmp_path)[-2:]:
        path.unlink()
    with pytest.raises(JournalError, match="is damaged"):
        JournalWriter(tmp_path).__enter__()


def test_a_segment_of_another_journal_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "ours", 3)
    written(tmp_path / "theirs", 3)
    shutil.copy(segments(tmp_path / "theirs")[0], segments(tmp_path / "ours")[0])
    with pytest.raises(JournalError, match="another journal"):
        JournalWriter(tmp_path / "ours").__enter__()


def test_recovery_completes_a_journal_whose_first_segment_was_not_finished(tmp_path: Path) -> None:
    written(tmp_path, 0)
    # The position file was written, the first segment only begun.
    segments(tmp_path)[0].rename(tmp_path / "00000000000000000000.new")
    with JournalWriter(tmp_path) as writer:
        writer.append([poll()])
    assert JournalReader(tmp_path).published_end() == 1
    assert not list(tmp_path.glob("*.new"))


def test_a_full_disk_is_reported_in_one_sentence_and_the_journal_can_be_reopened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = written(tmp_path, 2)

    def full(_: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with JournalWriter(tmp_path) as writer:
        writer.append([poll(5_000)])
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="cannot be written: No space left on device"):
            writer.publish()
        monkeypatch.undo()
        with pytest.raises(JournalError, match="has failed"):
            writer.append([poll()])
    with JournalWriter(tmp_path) as writer:
        assert writer.published_end == 2
    assert list(JournalReader(tmp_path).read(0, 2)) == rows


def test_a_folder_that_cannot_be_created_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="file/journal cannot be written"):
        JournalWriter(tmp_path / "file" / "journal").__enter__()


def test_a_row_too_large_appends_no_row_of_its_call(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        with pytest.raises(ValueError, match="larger than a frame can hold"):
            writer.append([poll(), poll(cluster="x" * 70_000)])
        writer.append([poll(7)])
        assert writer.publish() == 1


# -- follow position and retention ----------------------------------------------------------------------------


def test_the_follow_progress_survives_the_deletion_of_old_segments(tmp_path: Path) -> None:
    with JournalWriter(tmp_path, segment_bytes=200, keep_bytes=300) as writer:
        writer.append([records(batch(41, 6), base=41, last=41, epoch=6)])
        for at in range(30):
            writer.append([poll(at * 1000)])
            JournalReader(tmp_path).commit(writer.publish())
        expected = writer.follow_progress("alpha")
        assert writer.follow_progress("beta") is None
    assert JournalReader(tmp_path).first_sequence() > 0
    with JournalWriter(tmp_path) as writer:
        position = writer.follow_progress("alpha")
        assert position is not None
        assert position == expected
        assert (position.next_offset, position.last_epoch, position.observed_at_ms) == (42, 6, 29_000)


def test_retention_by_size_and_age_deletes_committed_segments_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, 40, segment_bytes=200)
    journal, kept = JournalReader(tmp_path), len(segments(tmp_path))
    with JournalWriter(tmp_path, keep_bytes=0):
        assert len(segments(tmp_path)) == kept
    assert "its reader has not committed row 0" in caplog.text
    journal.commit(20)
    with JournalWriter(tmp_path, keep_bytes=1 << 30):
        assert len(segments(tmp_path)) == kept
    with JournalWriter(tmp_path, keep_bytes=0):
        assert 10 <= journal.first_sequence() <= 20
    journal.commit(40)
    with JournalWriter(tmp_path, keep_s=10):
        # The newest row is of second 39: segments that ended before second 29 are deleted.
        assert 20 <= journal.first_sequence() <= 29
    assert [row.sequence for row in journal.read(journal.first_sequence(), 40)] == list(
        range(journal.first_sequence(), 40)
    )


def test_old_segments_are_deleted_while_writing(tmp_path: Path) -> None:
    with JournalWriter(tmp_path, segment_bytes=200, keep_s=20) as writer:
        for at in range(60):
            writer.append([poll(at * 1000)])
            JournalReader(tmp_path).commit(writer.publish())
        assert 30 <= JournalReader(tmp_path).first_sequence() <= 40


def test_an_index_that_cannot_be_written_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix == segment.INDEX_SUFFIX:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    large = b"x" * segment.INDEX_EVERY_BYTES
    with JournalWriter(tmp_path) as writer:
        for at in range(3):
            writer.append([poll(at, payload=large)])
        assert writer.publish() == 3
    assert [row.observed_at_ms for row in JournalReader(tmp_path).read(0, 3)] == [0, 1, 2]


def test_a_new_segment_is_complete_after_partial_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, bytes(content[:100])))
    before = written(tmp_path, 6, segment_bytes=200)
    assert len(segments(tmp_path)) > 1

    with JournalWriter(tmp_path) as writer:
        assert writer.published_end == 6
    assert list(JournalReader(tmp_path).read(0, 6)) == before


@pytest.mark.parametrize("content", [b"", b"\0" * 1024], ids=["empty", "zeros"])
def test_a_damaged_committed_position_counts_as_none(tmp_path: Path, content: bytes) -> None:
    written(tmp_path, 4)
    (tmp_path / "committed").write_bytes(content)

    with JournalWriter(tmp_path) as writer:
        assert writer.published_end == 4
    JournalReader(tmp_path).commit(3)
    assert JournalReader(tmp_path).committed_end() == 3


def test_a_journal_with_an_empty_position_file_and_no_segment_is_created_again(tmp_path: Path) -> None:
    (tmp_path / "published").touch()

    assert len(written(tmp_path, 2)) == 2
