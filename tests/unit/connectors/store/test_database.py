"""A database: what is committed is on the disk, and what is not has no effect."""

import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from sqlalchemy import delete

from connectors.errors import StoreError
from connectors.store import sqlite_file
from connectors.store.collection import Collection, quarantine_of
from connectors.store.tables import ENTRIES, sqlite_database

NUMBERS: TypeAdapter[int] = TypeAdapter(int)


def numbers(folder: Path, *, keep: int = 100, read_only: bool = False) -> Collection[int]:
    return Collection(sqlite_database(folder, read_only=read_only), "numbers", NUMBERS, keep=keep)


def test_values_are_read_by_every_process_in_the_order_in_which_they_were_put(tmp_path: Path) -> None:
    numbers(tmp_path).put({"b": 1, "a": 2})
    numbers(tmp_path).put({"c": 3, "b": 4})
    assert [*numbers(tmp_path, read_only=True).items().items()] == [("a", 2), ("c", 3), ("b", 4)]
    assert (numbers(tmp_path).get("b"), numbers(tmp_path).get("d"), len(numbers(tmp_path))) == (4, None, 3)


def test_reading_creates_no_file(tmp_path: Path) -> None:
    assert numbers(tmp_path).items() == {}
    assert (numbers(tmp_path).get("a"), len(numbers(tmp_path, read_only=True))) == (None, 0)
    assert list(tmp_path.iterdir()) == []


def test_collections_of_one_database_are_separate_and_their_limits_too(tmp_path: Path) -> None:
    quarantine_of(sqlite_database(tmp_path)).put({"a": {"offset": 7}})
    numbers(tmp_path, keep=2).put({"a": 1, "b": 2, "c": 3})
    assert numbers(tmp_path).items() == {"b": 2, "c": 3}
    assert quarantine_of(sqlite_database(tmp_path)).items() == {"a": {"offset": 7}}


def test_the_quarantine_keeps_the_first_descriptions_across_restarts(tmp_path: Path) -> None:
    for _ in range(2):
        quarantine_of(sqlite_database(tmp_path), keep=3).put({f"a-{number}": {} for number in range(5)})
    assert [*quarantine_of(sqlite_database(tmp_path)).items()] == ["a-0", "a-1", "a-2"]


def test_a_database_is_readable_for_its_owner_alone(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    Collection(database, "numbers", NUMBERS).put({"a": 1})
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    database.close()


def test_a_transaction_that_fails_changes_nothing(tmp_path: Path) -> None:
    stored = numbers(tmp_path)
    stored.put({"a": 1})
    with pytest.raises(KeyError), sqlite_database(tmp_path).transaction() as connection:
        connection.execute(delete(ENTRIES))
        raise KeyError
    assert stored.items() == {"a": 1}


def test_many_processes_and_threads_may_open_and_write_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda at: numbers(tmp_path).put({f"{at}": at}), range(24)))
    assert numbers(tmp_path).items() == {f"{at}": at for at in range(24)}


def test_a_file_that_another_process_writes_gets_its_mode_when_it_has_written(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    sqlite_file.create_private(path)
    with closing(sqlite_file.connect(path)) as writer, ThreadPoolExecutor(1) as pool:
        writer.execute("CREATE TABLE one (a)")
        writer.execute("BEGIN IMMEDIATE")

        waits = pool.submit(sqlite_file.use_wal, path)
        with pytest.raises(TimeoutError):
            waits.result(timeout=0.2)
        writer.execute("COMMIT")

        waits.result(timeout=sqlite_file.LOCK_WAIT_S)
    with closing(sqlite_file.connect(path)) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_fifty_writers_of_the_same_names_all_succeed(tmp_path: Path) -> None:
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda at: numbers(tmp_path).put({"a": at, "b": at}, without=["c"]), range(50)))
    stored = numbers(tmp_path).items()
    assert stored.keys() == {"a", "b"}
    assert stored["a"] == stored["b"]


def test_what_is_committed_after_another_use_of_the_file_is_seen_by_all_processes(tmp_path: Path) -> None:
    """To close any descriptor of the file would release the locks that this process has on it: another process that
    closes the file would then delete the log that this one writes to."""
    first = numbers(tmp_path)
    first.put({"a": 1})
    numbers(tmp_path).put({"b": 2})
    script = (
        "import sqlite3, sys; used = sqlite3.connect(sys.argv[1]); used.execute('SELECT * FROM entries'); used.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "kraftwatch.db")], check=True)
    first.put({"c": 3})

    assert numbers(tmp_path, read_only=True).items() == {"a": 1, "b": 2, "c": 3}
    read = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM entries').fetchone())"
    shown = subprocess.run(
        [sys.executable, "-c", read, str(tmp_path / "kraftwatch.db")], check=True, capture_output=True, text=True
    )
    assert shown.stdout == "(3,)\n"


def test_a_commit_is_synced(tmp_path: Path) -> None:
    with sqlite_database(tmp_path).transaction() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


@pytest.mark.parametrize("content", [b"not a database at all" * 400, b"SQLite format 3\0" + b"\xff" * 4_080])
def test_a_damaged_file_is_reported_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "kraftwatch.db").write_bytes(content)
    assert sqlite_database(tmp_path).damage() is not None
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"kraftwatch\.db cannot be used: .*; fix the cause and try again"):
            numbers(tmp_path, read_only=read_only).items()


def test_a_value_of_another_type_is_damage(tmp_path: Path) -> None:
    Collection(sqlite_database(tmp_path), "numbers", TypeAdapter(str)).put({"a": "one"})
    with pytest.raises(StoreError, match=r"it is damaged: [^\n]*\Z"):
        numbers(tmp_path).items()


def test_a_copy_holds_what_was_committed_while_another_process_writes(tmp_path: Path) -> None:
    database = sqlite_database(tmp_path)
    stored = Collection(database, "numbers", NUMBERS)
    stored.put({"a": 1})
    with database.transaction():
        sqlite_file.copy(sqlite_database(tmp_path).path, tmp_path / "copy")
    stored.put({"a": 2})
    assert Collection(sqlite_database(tmp_path, name="copy", read_only=True), "numbers", NUMBERS).items() == {"a": 1}
    with pytest.raises(StoreError, match="cannot be used"):
        sqlite_file.copy(sqlite_database(tmp_path).path, tmp_path / "copy")
