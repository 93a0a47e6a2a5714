"""Replacing a file: atomic, with the given permissions, and synced as asked."""

import errno
import os
import stat
from pathlib import Path

import pytest

from connectors.store import durable_file
from connectors.store.durable_file import Synced, full_disk, replace_file


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced: `file` or `folder`."""
    found: list[str] = []

    def fsync(descriptor: int) -> None:
        found.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    monkeypatch.setattr(os, "fsync", fsync)
    return found


@pytest.mark.parametrize(
    ("synced", "expected"),
    [(Synced.NOTHING, []), (Synced.FILE, ["file"]), (Synced.FILE_AND_FOLDER, ["file", "folder"])],
)
def test_a_replacement_syncs_what_is_asked(
    tmp_path: Path, syncs: list[str], synced: Synced, expected: list[str]
) -> None:
    replace_file(tmp_path / "file", b"new", synced=synced)
    assert ((tmp_path / "file").read_bytes(), syncs) == (b"new", expected)


def test_a_replaced_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    leftover = tmp_path / "file.new"
    leftover.write_bytes(b"a longer content of an earlier crash")
    leftover.chmod(0o644)
    replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert not leftover.exists()


def test_a_failed_replacement_leaves_the_file_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        replace_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"


def test_a_disk_without_room_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert full_disk(tmp_path) is None
    assert full_disk(tmp_path / "missing") is None
    monkeypatch.setattr(durable_file, "_LEAST_FREE", 1 << 62)
    assert full_disk(tmp_path) == f"the disk of {tmp_path} is full"
