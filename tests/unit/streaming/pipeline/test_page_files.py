"""Pages of a state as files: complete or missing, and deleted only when no retained state needs them."""

from pathlib import Path

import pytest

from connectors.store.durable_file import sync_path
from streaming.pipeline import page_files
from streaming.pipeline.page_files import SWEEP_BATCHES, PageFiles
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


def test_the_pages_of_a_state_are_synced_once_before_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def sync(path: Path) -> None:
        synced.append(path)
        sync_path(path)

    monkeypatch.setattr(page_files, "sync_path", sync)
    pages, folder = PageFiles(tmp_path, "prod"), tmp_path / "pages" / "prod"
    first, second, replaced = (pages.put(content) for content in (b"first", b"second", b"replaced"))
    assert synced == []

    pages.stored({first, second})
    assert (*sorted(synced[:2]), *synced[2:]) == (*sorted(folder / one.hex() for one in (first, second)), folder)
    synced.clear()

    pages.put(b"first")
    pages.stored({first})
    assert synced == []

    assert pages.put(b"replaced") == replaced
    pages.stored({first, replaced})
    assert synced == [folder / replaced.hex(), folder]


def test_a_page_that_a_power_failure_has_emptied_is_written_again(tmp_path: Path) -> None:
    reference = PageFiles(tmp_path, "prod").put(b"page")
    (tmp_path / "pages" / "prod" / reference.hex()).write_bytes(b"")

    assert PageFiles(tmp_path, "prod").put(b"page") == reference
    assert files(tmp_path) == {b"page"}


def test_a_page_is_deleted_once_no_state_of_many_batches_needs_it(tmp_path: Path) -> None:
    pages = PageFiles(tmp_path, "prod")
    kept, replaced = pages.put(b"kept"), pages.put(b"replaced")
    pages.stored({kept, replaced})
    (tmp_path / "pages" / "prod" / "0123.new").write_bytes(b"of an attempt that failed")
    for _ in range(SWEEP_BATCHES - 1):
        assert files(tmp_path) >= {b"kept", b"replaced"}
        pages.stored({kept})
    assert files(tmp_path) == {b"kept", b"replaced"}, "a state of these batches needs it"
    for _ in range(SWEEP_BATCHES):
        assert files(tmp_path) == {b"kept", b"replaced"}
        pages.stored({kept})
    assert files(tmp_path) == {b"kept"}


def test_the_pages_of_a_state_before_a_restart_are_kept_for_many_batches(tmp_path: Path) -> None:
    before = PageFiles(tmp_path, "prod")
    old, new = before.put(b"old"), before.put(b"new")
    before.stored({old, new})

    after = PageFiles(tmp_path, "prod")
    for _ in range(SWEEP_BATCHES - 1):
        after.stored({new})
        assert files(tmp_path) == {b"old", b"new"}
    after.stored({new})
    assert files(tmp_path) == {b"new"}
