"""Position files: a broken write never loses the position before it."""

from pathlib import Path

import pytest

from connectors.errors import JournalError
from connectors.journal import position_file
from connectors.journal.position_file import JournalPosition

ID = "00112233445566778899aabbccddeeff"


def at(sequence: int) -> JournalPosition:
    return JournalPosition(journal_id=ID, sequence=sequence)


def test_the_newest_position_is_read(tmp_path: Path) -> None:
    assert position_file.read(tmp_path / "published") is None
    for sequence in range(5):
        position_file.write(tmp_path / "published", at(sequence), sync=sequence % 2 == 0)
        assert position_file.read(tmp_path / "published") == at(sequence)


def test_a_write_broken_at_any_byte_leaves_the_position_before_it(tmp_path: Path) -> None:
    path = tmp_path / "published"
    position_file.write(path, at(7))
    position_file.write(path, at(8))
    whole = path.read_bytes()
    newest_slot = range(512, len(whole))
    assert len(newest_slot) == 40
    for byte in newest_slot:
        broken = bytearray(whole)
        broken[byte] ^= 0xFF
        path.write_bytes(broken)
        assert position_file.read(path) == at(7)


def test_a_file_without_a_valid_position_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "published").write_bytes(bytes(1024))
    with pytest.raises(JournalError, match="published is damaged"):
        position_file.read(tmp_path / "published")


def test_an_unreadable_file_is_refused_and_named(tmp_path: Path) -> None:
    (tmp_path / "published").symlink_to("published")
    with pytest.raises(JournalError, match="published cannot be read"):
        position_file.read(tmp_path / "published")
