"""The quarantine: bounded, and not slower the more it holds."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.pipeline.deliver import Quarantine


def test_what_did_not_decode_is_kept_under_its_name_once(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.put("a-7-0", '{"offset":7}')
    quarantine.put("a-7-0", '{"offset":7}')

    (kept,) = (tmp_path / "quarantine").iterdir()
    assert (kept.name, kept.read_text()) == ("a-7-0.json", '{"offset":7}\n')


def test_it_holds_no_more_than_it_may_across_restarts(tmp_path: Path) -> None:
    for _ in range(2):
        quarantine = Quarantine(tmp_path, keep=3)
        for number in range(5):
            quarantine.put(f"a-{number}", "{}")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0.json", "a-1.json", "a-2.json"]


def test_the_folder_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Path] = []
    real = Path.iterdir

    def counting(folder: Path) -> Iterator[Path]:
        counted.append(folder)
        return real(folder)

    monkeypatch.setattr(Path, "iterdir", counting)
    quarantine = Quarantine(tmp_path, keep=2)

    for number in range(4):
        quarantine.put(f"a-{number}", "{}")

    assert counted == [tmp_path]
