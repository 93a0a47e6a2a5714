"""The quarantine is bounded, and its cost does not grow with its size."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streaming.pipeline.deliver import Quarantine


def test_an_undecodable_record_is_kept_once(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path / "quarantine")
    quarantine.put("a-7-0", '{"offset":7}')
    quarantine.put("a-7-0", '{"offset":7}')

    (kept,) = (tmp_path / "quarantine").iterdir()
    assert (kept.name, kept.read_text()) == ("a-7-0.json", '{"offset":7}\n')


def test_the_limit_holds_across_restarts(tmp_path: Path) -> None:
    for _ in range(2):
        quarantine = Quarantine(tmp_path, keep=3)
        for number in range(5):
            quarantine.put(f"a-{number}", "{}")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-0.json", "a-1.json", "a-2.json"]


def test_the_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
