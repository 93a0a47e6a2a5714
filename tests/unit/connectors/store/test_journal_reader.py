"""JournalReader: ranges, commits, waiting, and errors."""

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import JournalError, OtherJournalError, UsageError
from connectors.observations.observation import Observation, ObservationKind
from connectors.store import sqlite_file
from connectors.store.journal_file import VERSION, journal_damage, journal_file
from connectors.store.journal_reader import JournalReader, RowFilter
from connectors.store.journal_writer import JournalWriter
from tests.unit.connectors.store.journal_rows import poll

WANTED: dict[str, Any] = {
    "clusters": st.none() | st.just(frozenset(["alpha"])) | st.just(frozenset(["a", "b"])),
    "kinds": st.none() | st.just(frozenset(["quorum", "probe"])) | st.just(frozenset(["records"])),
    "from_ms": st.none() | st.integers(0, 2_000),
    "to_ms": st.none() | st.integers(0, 2_000),
}
"""Of a RowFilter."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2000 rows of 1 kB."""
    directory = tmp_path_factory.mktemp("large")
    with JournalWriter(directory) as writer:
        for at in range(400):
            writer.append([poll(at * 5 + more, payload=b"%d" % at * 300) for more in range(5)])
            writer.publish()
    return directory


def execute(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(journal_file(directory))) as database, database:
        database.executescript(statement)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 2000))
def test_reading_any_range_twice_gives_the_same_rows(large: Path, one: int, other: int) -> None:
    start, end = sorted((one, other))
    rows = list(JournalReader(large).read(start, end))
    assert [row.sequence for row in rows] == list(range(start, end))
    assert [row.observed_at_ms for row in rows] == list(range(start, end))
    assert list(JournalReader(large).read(start, end)) == rows


optional = st.none() | st.integers(-1, 2**63 - 1)


@settings(max_examples=30, deadline=None)
@given(
    st.builds(
        Observation,
        cluster=st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable()),
        kind=st.sampled_from(ObservationKind),
        observed_at_ms=st.integers(0, 2**62),
        base_offset=optional,
        last_offset=optional,
        leader_epoch=optional,
        high_watermark=optional,
        payload=st.binary(max_size=200),
        sequence=st.just(0),
    )
)
def test_any_row_is_read_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, row: Observation) -> None:
    directory = tmp_path_factory.mktemp("any")
    with JournalWriter(directory) as writer:
        writer.append([row])
    assert list(JournalReader(directory).read(0, 1)) == [row]


def test_rows_larger_than_what_is_read_at_once(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at, payload=bytes(5 << 20)) for at in range(3)])
    assert [(row.sequence, len(row.payload)) for row in JournalReader(tmp_path).read(0, 3)] == [
        (at, 5 << 20) for at in range(3)
    ]
    reader = JournalReader(tmp_path)
    assert [reader.takes_more(1, size << 20) for size in (10, 11)] == [True, False]
    assert not reader.takes_more(0, 16 << 20)


def test_a_copy_that_nobody_may_write_beside_is_read(large: Path, tmp_path: Path) -> None:
    sqlite_file.copy(journal_file(large), journal_file(tmp_path))
    tmp_path.chmod(0o500)
    try:
        assert len(list(JournalReader(tmp_path).read(0, 2000))) == 2000
        assert [path.name for path in tmp_path.iterdir()] == ["observations.db"]
    finally:
        tmp_path.chmod(0o700)


def test_a_missing_journal_or_row_is_reported_in_one_sentence(large: Path, tmp_path: Path) -> None:
    assert not JournalReader(tmp_path).created
    assert JournalReader(large).created
    for query in (
        JournalReader(tmp_path).published_end,
        JournalReader(tmp_path).first_sequence,
        JournalReader(tmp_path / "no").first_sequence,
        lambda: JournalReader(tmp_path).wait_beyond(0, 0),
    ):
        with pytest.raises(JournalError, match="holds no journal"):
            query()
    with pytest.raises(JournalError, match="it ends at 2000: the checkpoint belongs to another journal"):
        list(JournalReader(large).read(1999, 2001))
    with pytest.raises(JournalError, match="it ends at 2000"):
        JournalReader(large).commit(2001)


def test_rows_that_are_no_longer_kept_are_refused(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at) for at in range(20)])
    JournalReader(tmp_path).commit(7)
    with JournalWriter(tmp_path, keep_bytes=0):
        pass
    assert JournalReader(tmp_path).first_sequence() == 7
    with pytest.raises(JournalError, match=r"Row 0 of .* is no longer kept: it begins at 7"):
        list(JournalReader(tmp_path).read(0, 20))


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("DELETE FROM observations WHERE sequence = 1", "row 1 is missing"),
        ("UPDATE observations SET kind = 'other' WHERE sequence = 1", "'other' is not a valid ObservationKind"),
        ("DELETE FROM journal", "it holds no position"),
        ("DELETE FROM observations; DROP TABLE journal; CREATE TABLE journal AS SELECT NULL AS first", "TypeError"),
    ],
)
def test_what_cannot_be_is_reported_as_damage(tmp_path: Path, statement: str, reason: str) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at) for at in range(3)])
    execute(tmp_path, statement)
    with pytest.raises(JournalError, match=rf"observations\.db is damaged \(.*{reason}.*`kraftwatch repair"):
        list(JournalReader(tmp_path).read(0, 3))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2000), st.integers(0, 2000), st.builds(RowFilter, **WANTED))
def test_selected_rows_are_the_wanted_ones_of_those_that_are_read(
    large: Path, one: int, other: int, wanted: RowFilter
) -> None:
    start, end = sorted((one, other))
    reader = JournalReader(large)

    selected = list(reader.select(start, end, wanted))

    assert selected == [row for row in reader.read(start, end) if matches(wanted, row)]


def matches(wanted: RowFilter, row: Observation) -> bool:
    return (
        (wanted.clusters is None or row.cluster in wanted.clusters)
        and (wanted.kinds is None or row.kind in wanted.kinds)
        and (wanted.from_ms is None or row.observed_at_ms >= wanted.from_ms)
        and (wanted.to_ms is None or row.observed_at_ms <= wanted.to_ms)
    )


def test_a_selection_reports_missing_rows_also_if_they_might_not_match(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at) for at in range(3)])
    execute(tmp_path, "DELETE FROM observations WHERE sequence = 1")

    with pytest.raises(JournalError, match="row 1 is missing"):
        list(JournalReader(tmp_path).select(0, 3, RowFilter(clusters=frozenset(["nowhere"]))))


def test_a_journal_of_another_version_is_refused_by_every_use(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(0)])
    execute(tmp_path, f"PRAGMA user_version = {VERSION + 1}")
    reader = JournalReader(tmp_path)
    for use in (reader.published_end, lambda: reader.commit(1), JournalWriter(tmp_path).__enter__):
        with pytest.raises(OtherJournalError, match=rf"observations\.db has version {VERSION + 1}, and this"):
            use()
    with pytest.raises(UsageError, match=f"has version {VERSION + 1}"):
        journal_damage(tmp_path)


def test_a_journal_of_an_older_version_is_read_and_continued(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(0)])
    execute(tmp_path, "PRAGMA user_version = 1")
    assert JournalReader(tmp_path).published_end() == 1
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(1)])
    assert JournalReader(tmp_path).published_end() == 2
    with closing(sqlite3.connect(journal_file(tmp_path))) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_commit_only_moves_forward(tmp_path: Path) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([poll(at) for at in range(5)])
        writer.publish()
        journal = JournalReader(tmp_path)
        assert journal.committed_end() == 0
        journal.commit(3)
        journal.commit(2)
        assert journal.committed_end() == 3


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
        journal.commit(1)
        writer.append([poll()])
        writer.publish()
        waiting.join(30)
        assert ends == [2]
