"""Pages of a state as files: complete or missing, and deleted only when no retained state needs them."""

from pathlib import Path

import pytest

from rules.model.identifiers import Millis
from streaming.pipeline.page_files import SWEEP_BATCHES, SWEEP_MS, PageFiles
from streaming.replay.stored_topics import MissingPageError


def files(folder: Path) -> set[bytes]:
    return {path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_page_is_read_again_by_another_process(tmp_path: Path) -> None:
    reference = PageFiles(tmp_path, "prod/eu").put(b"page")

    assert PageFiles(tmp_path, "prod/eu").get(reference) == b"page"
    assert PageFiles(tmp_path, "prod/eu").put(b"page") == reference
    assert files(tmp_path) == {b"page"}
    with pytest.raises(MissingPageError):
        PageFiles(tmp_path, "staging").get(reference)


def test_only_the_owner_can_read_pages(tmp_path: Path) -> None:
    PageFiles(tmp_path, "prod").put(b"page")

    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "pages").rglob("*")}
    assert {*modes.values()} == {0o700, 0o600}


def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    pages = PageFiles(tmp_path, "prod")
    reference = pages.put(b"page")
    (path,) = (one for one in tmp_path.rglob("*") if one.is_file())
    path.write_bytes(b"pag")

    with pytest.raises(MissingPageError, match=f"{path} is damaged"):
        pages.get(reference)


def test_a_page_is_deleted_once_no_state_of_many_batches_needs_it(tmp_path: Path) -> None:
    pages = PageFiles(tmp_path, "prod")
    kept, replaced = pages.put(b"kept"), pages.put(b"replaced")
    pages.stored({kept, replaced}, Millis(0))
    (tmp_path / "pages" / "prod" / "0123.new").write_bytes(b"of an attempt that failed")
    for batch in range(SWEEP_BATCHES):
        pages.stored({kept}, Millis(batch))
    assert files(tmp_path) >= {b"kept", b"replaced"}, "after a few seconds"

    pages.stored({kept}, SWEEP_MS)
    assert files(tmp_path) == {b"kept", b"replaced"}, "a state of this time needs it"
    for _ in range(SWEEP_BATCHES - 1):
        pages.stored({kept}, Millis(3 * SWEEP_MS))
    assert files(tmp_path) == {b"kept", b"replaced"}, "after a few batches"

    pages.stored({kept}, Millis(3 * SWEEP_MS))
    assert files(tmp_path) == {b"kept"}


def test_the_pages_of_a_state_before_a_restart_are_kept_for_many_batches(tmp_path: Path) -> None:
    before = PageFiles(tmp_path, "prod")
    old, new = before.put(b"old"), before.put(b"new")
    before.stored({old, new}, Millis(0))

    after = PageFiles(tmp_path, "prod")
    for batch in range(SWEEP_BATCHES - 1):
        after.stored({new}, Millis(batch * SWEEP_MS))
        assert files(tmp_path) == {b"old", b"new"}
    after.stored({new}, Millis(SWEEP_BATCHES * SWEEP_MS))
    assert files(tmp_path) == {b"new"}
