"""Spark's files: which of them are damaged, without Spark. tests/spark/test_checkpoint_repair.py damages real ones."""

import json
from pathlib import Path

import pytest

from connectors.errors import UsageError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.spark_files import PlannedEnd, SparkFiles


def written(folder: Path, *, batches: int = 3) -> SparkFiles:
    """Writes what Spark writes for a number of committed batches, and the offset of one more."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"9"}')
    for batch in range(batches + 1):
        end = json.dumps({"journal": "j", "sequence": batch + 1})
        (folder / "offsets" / str(batch)).write_text(f'v1\n{{"conf":{{}}}}\n{end}')
    for batch in range(batches):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return SparkFiles(folder=folder)


def test_intact_files_are_not_damaged(tmp_path: Path) -> None:
    files = written(tmp_path)
    assert not files.damaged()
    assert (files.offsets, files.commits, files.has_state) == ([0, 1, 2, 3], [0, 1, 2], True)
    assert files.newest_planned_end() == PlannedEnd(journal_id="j", sequence=4)


def test_a_new_folder_is_not_damaged(tmp_path: Path) -> None:
    assert not SparkFiles(folder=tmp_path / "none").damaged()
    assert not SparkFiles(folder=tmp_path / "none").has_state


@pytest.mark.parametrize("name", ["metadata", "offsets/3", "offsets/2", "commits/2"])
@pytest.mark.parametrize("how", ["empty", "cut"])
def test_a_damaged_file_is_named_with_the_command(tmp_path: Path, name: str, how: str) -> None:
    files = written(tmp_path / "spark")
    path = files.folder / name
    content = path.read_bytes()
    path.write_bytes(b"" if how == "empty" else content[: len(content) - 3])

    with pytest.raises(UsageError) as refused:
        Checkpoint(folder=tmp_path).check_spark()

    reason = "it is empty" if how == "empty" else "it is incomplete or changed"
    command = f"run `kraftwatch checkpoint repair --checkpoint {tmp_path}`"
    assert str(refused.value) == f"{path} is damaged ({reason}): {command}"


@pytest.mark.parametrize("name", ["offsets/1", "offsets/0", "commits/1", "commits/0"])
def test_a_file_that_spark_does_not_need_is_not_reported(tmp_path: Path, name: str) -> None:
    files = written(tmp_path)
    (tmp_path / name).write_bytes(b"")
    assert not files.damaged()


def test_missing_files_are_named(tmp_path: Path) -> None:
    files = written(tmp_path)
    (tmp_path / "metadata").unlink()
    (tmp_path / "offsets" / "2").unlink()
    assert files.damaged() == [
        f"{tmp_path / name} is damaged (it does not exist)" for name in ("metadata", "offsets/2")
    ]
