"""The one writer: order, recovery, refusals, retention, and what a restarted follower is told."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalError, JournalInUseError
from connectors.journal import position_file, segment
from connectors.journal.position_file import Mark
from connectors.journal.reader import Journal
from connectors.journal.writer import Recorder
from connectors.observation import Observation
from tests.unit.connectors.journal.journal_rows import batch, poll, records


def written(directory: Path, rows: int, *, segment_bytes: int = 1 << 20) -> list[Observation]:
    with Recorder(directory, segment_bytes=segment_bytes) as recorder:
        for at in range(rows):
            recorder.append([poll(at * 1000, payload=b"%d" % at)])
            recorder.publish()
    return list(Journal(directory).read(0, rows))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.seg"))


def test_rows_get_their_sequence_and_are_seen_only_when_published(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        journal = Journal(tmp_path)
        recorder.append([poll(1), poll(2)])
        assert journal.published() == 0
        assert recorder.publish() == 2
        recorder.append([poll(3)])
        assert journal.published() == 2
        assert [(row.sequence, row.observed_at_ms) for row in journal.read(0, 2)] == [(0, 1), (1, 2)]
    # Leaving the context in peace publishes what was appended.
    assert [row.observed_at_ms for row in journal.read(0, 3)] == [1, 2, 3]


def test_an_error_inside_the_context_publishes_nothing_more(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Recorder(tmp_path) as recorder:
        recorder.append([poll()])
        raise RuntimeError
    assert Journal(tmp_path).published() == 0


def test_rows_are_on_the_disk_before_anyone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def watch(name: str) -> None:
        real = getattr(os, name)

        def watched(*args: object) -> object:
            calls.append(name)
            return real(*args)

        monkeypatch.setattr(os, name, watched)

    with Recorder(tmp_path, segment_bytes=1) as recorder:
        recorder.append([poll()])
        for name in ("write", "fdatasync", "pwrite", "fsync"):
            watch(name)
        recorder.publish()
    # The rows, synced, and only then the mark; and it is synced too before a new segment builds on it.
    assert calls[:5] == ["write", "fdatasync", "pwrite", "pwrite", "fsync"]
    # The new segment's header is synced before it has its name, and then the name.
    assert calls[5:] == ["write", "fsync", "fsync"]


def test_publishing_nothing_writes_nothing(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        before = (tmp_path / "published").read_bytes()
        assert recorder.publish() == 0
        assert (tmp_path / "published").read_bytes() == before


def test_a_large_append_leaves_memory_before_it_is_published(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        recorder.append([poll(payload=bytes(5 << 20))])
        assert segments(tmp_path)[0].stat().st_size > 5 << 20
        assert Journal(tmp_path).published() == 0
        recorder.append([poll(payload=b"small")])
        recorder.publish()
    assert [len(row.payload) for row in Journal(tmp_path).read(0, 2)] == [5 << 20, 5]


def test_only_one_process_writes(tmp_path: Path) -> None:
    in_use = f"still in use after 0.1 s by process {os.getpid()}"
    with Recorder(tmp_path), pytest.raises(JournalInUseError, match=in_use):
        Recorder(tmp_path, lock_timeout_s=0.1).__enter__()
    with Recorder(tmp_path, lock_timeout_s=0):
        pass


def test_the_journal_keeps_its_id_and_goes_on_counting(tmp_path: Path) -> None:
    first = written(tmp_path, 3)
    with Recorder(tmp_path) as recorder:
        assert recorder.journal_id == Journal(tmp_path).journal_id
        assert recorder.published == 3
        recorder.append([poll(9_000)])
    assert list(Journal(tmp_path).read(0, 3)) == first
    assert Journal(tmp_path).published() == 4


def test_whole_rows_that_were_not_yet_published_are_kept(tmp_path: Path) -> None:
    rows = written(tmp_path, 5)
    # As after a crash between the sync and the mark: the mark is the one of row 3, all five rows are there.
    _set_published(tmp_path, sequence=3)
    with Recorder(tmp_path) as recorder:
        assert recorder.published == 5
    assert list(Journal(tmp_path).read(0, 5)) == rows


def test_the_folder_and_its_files_are_the_owners_alone(tmp_path: Path) -> None:
    written(tmp_path / "journal", 3, segment_bytes=100)
    assert (tmp_path / "journal").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "journal").iterdir())


# -- torn tails and damage -------------------------------------------------------------------------------------


def _position_after(directory: Path, sequence: int) -> int:
    """Byte offset in the only segment where row `sequence` begins."""
    if sequence == 0:
        with segments(directory)[0].open("rb") as file:
            return segment.read_header(file, segments(directory)[0]).rows_at
    journal_id = Journal(directory).journal_id
    return [after for after, row in segment.rows(directory, 0, 0, journal_id) if row.sequence < sequence][-1]


def _set_published(directory: Path, *, sequence: int) -> None:
    position_file.write(directory / "published", Mark(journal_id=Journal(directory).journal_id, sequence=sequence))


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["cut", "zeros", "noise"]), st.integers(0, 7))
def test_a_torn_tail_is_cut_off_and_damage_below_it_is_refused(where: int, how: str, published: int) -> None:
    """Break the file at any byte: rows before it stay, and no published row is ever given up silently."""
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
                Recorder(directory).__enter__()
            return
        with Recorder(directory) as recorder:
            assert recorder.published == whole
            recorder.append([poll(99_000)])
        assert [row.payload for row in Journal(directory).read(0, whole)] == [row.payload for row in rows[:whole]]
        assert [row.observed_at_ms for row in Journal(directory).read(whole, whole + 1)] == [99_000]


def test_a_torn_tail_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path, 2)
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b"torn")
    with Recorder(tmp_path):
        pass
    assert "4 bytes of an unfinished row" in caplog.text


def test_damage_in_a_sealed_segment_that_may_be_read_again_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 9, segment_bytes=200)
    damaged = segments(tmp_path)[1]
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(JournalError, match=rf"{damaged} is damaged at byte \d+ .*CRC"):
        Recorder(tmp_path).__enter__()
    # Behind the committed position it hinders nobody, and is said by whoever reads it.
    Journal(tmp_path).commit(9)
    with Recorder(tmp_path, segment_bytes=200):
        pass
    with pytest.raises(JournalError, match=str(damaged)):
        list(Journal(tmp_path).read(0, 9))


@pytest.mark.parametrize(
    ("taken", "sentence"),
    [("published", "published is missing"), ("*.seg", "has lost its segments"), ("00000000000000000000.seg", "")],
)
def test_a_file_taken_away_is_noticed(tmp_path: Path, taken: str, sentence: str) -> None:
    written(tmp_path, 9, segment_bytes=200)
    for path in tmp_path.glob(taken):
        path.unlink()
    if sentence:
        with pytest.raises(JournalError, match=sentence):
            Recorder(tmp_path).__enter__()
    else:
        # The oldest segment: what retention does too.
        with Recorder(tmp_path):
            assert Journal(tmp_path).first() > 0


def test_the_newest_segment_taken_away_is_noticed(tmp_path: Path) -> None:
    written(tmp_path, 9, segment_bytes=200)
    for path in segments(tmp_path)[-2:]:
        path.unlink()
    with pytest.raises(JournalError, match="is damaged"):
        Recorder(tmp_path).__enter__()


def test_a_segment_of_another_journal_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "ours", 3)
    written(tmp_path / "theirs", 3)
    shutil.copy(segments(tmp_path / "theirs")[0], segments(tmp_path / "ours")[0])
    with pytest.raises(JournalError, match="another journal"):
        Recorder(tmp_path / "ours").__enter__()


def test_a_crash_while_the_journal_is_made_is_no_harm(tmp_path: Path) -> None:
    written(tmp_path, 0)
    # The mark was written, the first segment only begun.
    segments(tmp_path)[0].rename(tmp_path / "00000000000000000000.new")
    with Recorder(tmp_path) as recorder:
        recorder.append([poll()])
    assert Journal(tmp_path).published() == 1
    assert not list(tmp_path.glob("*.new"))


def test_a_full_disk_is_one_sentence_and_recovery_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = written(tmp_path, 2)

    def full(_: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Recorder(tmp_path) as recorder:
        recorder.append([poll(5_000)])
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(JournalError, match="cannot be written: No space left on device"):
            recorder.publish()
        monkeypatch.undo()
        with pytest.raises(JournalError, match="has failed"):
            recorder.append([poll()])
    with Recorder(tmp_path) as recorder:
        assert recorder.published == 2
    assert list(Journal(tmp_path).read(0, 2)) == rows


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match="file/journal cannot be written"):
        Recorder(tmp_path / "file" / "journal").__enter__()


def test_a_row_too_large_takes_none_of_its_fellows(tmp_path: Path) -> None:
    with Recorder(tmp_path) as recorder:
        with pytest.raises(ValueError, match="larger than a frame"):
            recorder.append([poll(), poll(cluster="x" * 70_000)])
        recorder.append([poll(7)])
        assert recorder.publish() == 1


# -- progress and retention ------------------------------------------------------------------------------------


def test_a_follower_goes_on_after_everything_old_was_deleted(tmp_path: Path) -> None:
    with Recorder(tmp_path, segment_bytes=200, keep_bytes=300) as recorder:
        recorder.append([records(batch(41, 6), base=41, last=41, epoch=6)])
        for at in range(30):
            recorder.append([poll(at * 1000)])
            Journal(tmp_path).commit(recorder.publish())
        expected = recorder.last("alpha")
        assert recorder.last("beta") is None
    assert Journal(tmp_path).first() > 0
    with Recorder(tmp_path) as recorder:
        progress = recorder.last("alpha")
        assert progress is not None
        assert progress == expected
        assert (progress.next_offset, progress.last_epoch, progress.observed_at_ms) == (42, 6, 29_000)


def test_size_and_age_delete_committed_segments_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path, 40, segment_bytes=200)
    journal, kept = Journal(tmp_path), len(segments(tmp_path))
    with Recorder(tmp_path, keep_bytes=0):
        assert len(segments(tmp_path)) == kept
    assert "its reader is behind row 0" in caplog.text
    journal.commit(20)
    with Recorder(tmp_path, keep_bytes=1 << 30):
        assert len(segments(tmp_path)) == kept
    with Recorder(tmp_path, keep_bytes=0):
        assert 10 <= journal.first() <= 20
    journal.commit(40)
    with Recorder(tmp_path, keep_s=10):
        # The newest row is of second 39: what ended before second 29 goes.
        assert 20 <= journal.first() <= 29
    assert [row.sequence for row in journal.read(journal.first(), 40)] == list(range(journal.first(), 40))


def test_old_segments_go_while_writing_too(tmp_path: Path) -> None:
    with Recorder(tmp_path, segment_bytes=200, keep_s=20) as recorder:
        for at in range(60):
            recorder.append([poll(at * 1000)])
            Journal(tmp_path).commit(recorder.publish())
        assert 30 <= Journal(tmp_path).first() <= 40


def test_an_index_that_cannot_be_written_costs_time_and_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: Path, flags: int, mode: int = 0o777) -> int:
        if Path(path).suffix == segment.INDEX_SUFFIX:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    large = b"x" * segment.INDEX_EVERY_BYTES
    with Recorder(tmp_path) as recorder:
        for at in range(3):
            recorder.append([poll(at, payload=large)])
        assert recorder.publish() == 3
    assert [row.observed_at_ms for row in Journal(tmp_path).read(0, 3)] == [0, 1, 2]


def test_a_new_segment_is_whole_when_the_disk_takes_it_in_bites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, bytes(content[:100])))
    before = written(tmp_path, 6, segment_bytes=200)
    assert len(segments(tmp_path)) > 1

    with Recorder(tmp_path) as recorder:
        assert recorder.published == 6
    assert list(Journal(tmp_path).read(0, 6)) == before


@pytest.mark.parametrize("content", [b"", b"\0" * 1024], ids=["empty", "zeros"])
def test_a_committed_mark_that_a_power_cut_took_only_keeps_rows_longer(tmp_path: Path, content: bytes) -> None:
    written(tmp_path, 4)
    (tmp_path / "committed").write_bytes(content)

    with Recorder(tmp_path) as recorder:
        assert recorder.published == 4
    Journal(tmp_path).commit(3)
    assert Journal(tmp_path).committed() == 3


def test_a_journal_that_was_killed_while_it_was_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "published").touch()

    assert len(written(tmp_path, 2)) == 2
