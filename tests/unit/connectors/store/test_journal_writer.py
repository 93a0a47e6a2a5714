"""JournalWriter: order, durability, refused journals, retention, and the follow position after a restart."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import JournalError, JournalInUseError, UnwritableJournalError
from connectors.observations.observation import Observation, ObservationKind, from_json
from connectors.store import journal_writer
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from tests.unit.connectors.store.journal_rows import batch, poll, progress_of, records


def written(directory: Path, rows: int) -> list[Observation]:
    with JournalWriter(directory) as writer:
        for at in range(rows):
            writer.append([poll(at * 1000, payload=b"%d" % at)])
            writer.publish()
    return list(JournalReader(directory).read(0, rows))


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


def test_a_row_is_synced_before_a_reader_sees_it(tmp_path: Path) -> None:
    """SQLite syncs the write-ahead log in a commit, and shows its rows only then, in this mode."""
    written(tmp_path, 1)
    with JournalWriter(tmp_path) as writer, writer._transaction() as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (2,)
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_second_writer_is_refused_while_the_lock_is_held(tmp_path: Path) -> None:
    in_use = f"still in use after 0.1 s by process {os.getpid()}"
    with JournalWriter(tmp_path), pytest.raises(JournalInUseError, match=in_use):
        JournalWriter(tmp_path, lock_timeout_s=0.1).__enter__()
    with JournalWriter(tmp_path, lock_timeout_s=0):
        pass


def test_only_the_owner_can_access_the_folder_and_its_files(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "journal") as writer:
        writer.append([poll()])
        writer.publish()
        assert (tmp_path / "journal").stat().st_mode & 0o077 == 0
        assert {path.name for path in (tmp_path / "journal").iterdir()} >= {"observations.db", "observations.db-wal"}
        assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "journal").iterdir())


def test_a_journal_that_was_not_created_completely_is_created_again(tmp_path: Path) -> None:
    for name in ("observations.db.new", "observations.db.new-wal", "observations.db-wal"):
        (tmp_path / name).write_bytes(b"left by a crash")
    assert not JournalReader(tmp_path).created
    assert len(written(tmp_path, 2)) == 2
    assert not list(tmp_path.glob("*.new*"))


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_damaged_file_is_refused_with_the_command_that_repairs_it(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "checkpoint" / "journal"
    written(folder, 3)
    journal_file(folder).write_bytes(content)
    for read in (JournalWriter(folder).__enter__, JournalReader(folder).published_end):
        with pytest.raises(JournalError) as problem:
            read()
        assert str(journal_file(folder)) in str(problem.value)
        assert "\n" not in str(problem.value)
        command = f"`kraftwatch repair --checkpoint {tmp_path / 'checkpoint'}`"
        assert command in str(problem.value) or not content


def test_a_full_disk_is_reported_in_one_sentence_and_takes_the_rows_once_it_has_room(tmp_path: Path) -> None:
    rows, large, small = written(tmp_path, 2), poll(5_000, payload=bytes(1 << 20)), poll(6_000)
    with JournalWriter(tmp_path) as writer:
        writer.note_endpoints({"a": "changed"})
        writer.append([large])
        assert writer._database is not None
        writer._database.execute("PRAGMA max_page_count = 10")
        with pytest.raises(
            UnwritableJournalError, match=r"observations\.db cannot be used: database or disk is full; fix"
        ):
            writer.publish()
        writer.append([small])
        assert writer.publish() == 4
    newest = [replace(one, sequence=at) for at, one in ((2, large), (3, small))]
    assert list(JournalReader(tmp_path).read(0, 4)) == [*rows, *newest]
    with JournalWriter(tmp_path) as writer:
        assert (writer.published_end, writer.endpoints("a")) == (4, "changed")


def test_rows_that_the_disk_took_although_it_reported_an_error_are_not_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def fails_after_the_commit(path: Path) -> Iterator[None]:
        yield
        raise UnwritableJournalError(f"{path} cannot be used: disk I/O error")

    rows = written(tmp_path, 2)
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(5_000)])
        with monkeypatch.context() as patch, pytest.raises(UnwritableJournalError):
            patch.setattr(journal_writer, "errors", fails_after_the_commit)
            writer.publish()
        writer.append([poll(6_000)])
        assert writer.publish() == 4
    read = list(JournalReader(tmp_path).read(0, 4))
    assert [one.observed_at_ms for one in read] == [*(one.observed_at_ms for one in rows), 5_000, 6_000]


def test_a_folder_that_cannot_be_created_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"file/journal/observations\.db cannot be used: not a directory"):
        JournalWriter(tmp_path / "file" / "journal").__enter__()


def test_the_follow_progress_survives_the_deletion_of_old_rows(tmp_path: Path) -> None:
    with JournalWriter(tmp_path, keep_bytes=0) as writer:
        writer.append([records(batch(41, 6), base=41, last=41, epoch=6)])
        for at in range(30):
            writer.append([poll(at * 1000)])
            JournalReader(tmp_path).commit(writer.publish())
        expected = writer.follow_progress("alpha")
        assert writer.follow_progress("beta") is None
    assert JournalReader(tmp_path).first_sequence() > 0
    with JournalWriter(tmp_path) as writer:
        position = progress_of(writer, "alpha")
        assert position == expected
        assert (position.next_offset, position.last_epoch, position.observed_at_ms) == (42, 6, 29_000)


def test_the_log_of_a_cluster_that_is_no_longer_gathered_is_read_again(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([records(batch(41, 6), base=41, last=41, epoch=6), poll(29_000, cluster="beta")])
    with JournalWriter(tmp_path) as writer:
        writer.keep_progress_of(["alpha"])
        alpha = progress_of(writer, "alpha")
        writer.keep_progress_of(["beta"])
    with JournalWriter(tmp_path) as writer:
        again = progress_of(writer, "alpha")
        assert (alpha.next_offset, again.next_offset, again.observed_at_ms) == (42, None, alpha.observed_at_ms)
        assert writer.follow_progress("beta") is not None


def test_retention_by_size_and_age_deletes_committed_rows_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, 40)
    journal = JournalReader(tmp_path)
    with JournalWriter(tmp_path, keep_bytes=0):
        assert journal.first_sequence() == 0
    assert "its reader has not committed row 0" in caplog.text
    journal.commit(20)
    with JournalWriter(tmp_path, keep_bytes=1 << 30):
        assert journal.first_sequence() == 0
    with JournalWriter(tmp_path, keep_bytes=0):
        assert journal.first_sequence() == 20
    journal.commit(40)
    with JournalWriter(tmp_path, keep_s=10):
        # The newest row is of second 39.
        assert journal.first_sequence() == 29
    assert [row.sequence for row in journal.read(29, 40)] == list(range(29, 40))


def test_numbers_continue_when_every_row_is_deleted(tmp_path: Path) -> None:
    written(tmp_path, 5)
    journal = JournalReader(tmp_path)
    journal.commit(5)
    for _ in range(2):
        with JournalWriter(tmp_path, keep_bytes=0) as writer:
            assert (journal.first_sequence(), journal.published_end(), writer.published_end) == (5, 5, 5)
    assert list(journal.read(5, 5)) == []
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(9_000)])
    assert [row.sequence for row in journal.read(journal.first_sequence(), journal.published_end())] == [5]


def test_old_rows_are_deleted_while_writing_and_the_file_does_not_grow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_writer, "_DELETED_AT_ONCE", 3)
    with JournalWriter(tmp_path, keep_bytes=200_000) as writer:
        sizes = []
        for at in range(200):
            writer.append([poll(at * 1000, payload=bytes(10_000))])
            JournalReader(tmp_path).commit(writer.publish())
            sizes.append(journal_file(tmp_path).stat().st_size)
        kept = writer.published_end - JournalReader(tmp_path).first_sequence()
        assert 10 <= kept <= 40
    assert max(sizes) < 1_000_000, "free pages are used again"


def flooded(directory: Path, *, seconds: int, keep_bytes: int, clusters: int = 3) -> JournalReader:
    """A journal to which one cluster adds 20 kB a second and the others a poll each; every row is committed."""
    journal = JournalReader(directory)
    with JournalWriter(directory, keep_bytes=keep_bytes) as writer:
        for at in range(seconds):
            polls = [poll(at * 1000, cluster=f"quiet-{number}", payload=bytes(300)) for number in range(1, clusters)]
            writer.append([records(bytes(20_000), base=at, last=at, at_ms=at * 1000, cluster="flood"), *polls])
            journal.commit(writer.publish())
    return journal


def test_a_cluster_that_takes_more_than_its_share_does_not_delete_the_history_of_others(tmp_path: Path) -> None:
    journal = flooded(tmp_path, seconds=300, keep_bytes=1_000_000)

    rows = [*journal.read(journal.first_sequence(), journal.published_end())]
    quiet = [row.observed_at_ms for row in rows if row.cluster == "quiet-1"]
    flood = [row for row in rows if row.cluster == "flood"]
    assert quiet == [1_000 * at for at in range(300)], "nothing of it is deleted"
    assert sum(len(row.payload) for row in rows) < 1_400_000
    emptied = [row for row in flood if row.kind is ObservationKind.FAILED]
    assert len(emptied) > 200
    assert flood[: len(emptied)] == emptied, "the oldest ones"
    event = from_json(emptied[0].payload)
    assert isinstance(event, FailedObservation)
    assert (event.source, event.reason) == (ObservationSource.LOG, Reason.RECORDS_MISSING)
    assert not journal.complete, "the log of a cluster is not whole any more"
    with JournalWriter(tmp_path) as writer:
        assert progress_of(writer, "flood").next_offset == 300


def test_a_journal_without_other_clusters_deletes_its_oldest_rows(tmp_path: Path) -> None:
    journal = flooded(tmp_path, seconds=100, keep_bytes=500_000, clusters=1)

    assert journal.first_sequence() > 50
    assert {row.kind for row in journal.read(journal.first_sequence(), 100)} == {ObservationKind.RECORDS}


def test_rows_that_are_not_committed_are_not_emptied(tmp_path: Path) -> None:
    with JournalWriter(tmp_path, keep_bytes=100_000) as writer:
        for at in range(60):
            row = records(bytes(20_000), base=at, last=at, at_ms=at * 1000, cluster="flood")
            writer.append([row, poll(at * 1000)])
            writer.publish()
    kinds = {row.kind for row in JournalReader(tmp_path).read(0, 120) if row.cluster == "flood"}
    assert kinds == {ObservationKind.RECORDS}


def test_what_a_cluster_takes_is_known_after_a_restart_and_shrinks_with_its_rows(tmp_path: Path) -> None:
    flooded(tmp_path, seconds=50, keep_bytes=1 << 30)
    with JournalWriter(tmp_path) as writer:
        before = progress_of(writer, "flood").kept_bytes
    assert 1_000_000 < before < 1_010_000
    with JournalWriter(tmp_path, keep_s=10) as writer:
        assert 0.1 * before < progress_of(writer, "flood").kept_bytes < 0.3 * before
        writer.keep_progress_of(["quiet-1"])
    with JournalWriter(tmp_path) as writer:
        assert progress_of(writer, "flood").kept_bytes > 0.1 * before, "of a cluster that is no longer gathered, too"
