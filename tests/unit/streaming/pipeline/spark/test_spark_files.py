"""Spark's files: which of them are damaged, without Spark. tests/spark/test_lost_state.py damages real ones."""

import json
from pathlib import Path

import pytest

from streaming.job.spark_state import set_state_aside
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import CheckpointSource, record_source
from streaming.pipeline.spark.spark_files import LocalFolder, PlannedEnd, SparkFiles


def files_of(folder: Path) -> SparkFiles:
    return SparkFiles(folder=LocalFolder(path=folder))


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
    return files_of(folder)


def test_intact_files_are_not_damaged(tmp_path: Path) -> None:
    files = written(tmp_path)
    assert not files.damaged()
    assert (files.offsets, files.commits, files.has_state) == ([0, 1, 2, 3], [0, 1, 2], True)
    assert files.newest_planned_end() == PlannedEnd(journal_id="j", sequence=4)


def test_a_new_folder_is_not_damaged(tmp_path: Path) -> None:
    assert not files_of(tmp_path / "none").damaged()
    assert not files_of(tmp_path / "none").has_state


@pytest.mark.parametrize("name", ["metadata", "offsets/3", "offsets/2", "commits/2"])
@pytest.mark.parametrize("how", ["empty", "cut"])
def test_spark_cannot_continue_with_a_damaged_file(tmp_path: Path, name: str, how: str) -> None:
    written(tmp_path / "spark")
    path = tmp_path / "spark" / name
    content = path.read_bytes()
    path.write_bytes(b"" if how == "empty" else content[: len(content) - 3])

    reason = "it is empty" if how == "empty" else "it is incomplete or changed"
    assert Checkpoint(folder=tmp_path).why_no_state() == f"{path} is damaged ({reason})"


@pytest.mark.parametrize("name", ["offsets/1", "offsets/0", "commits/1", "commits/0"])
def test_a_file_that_spark_does_not_need_is_not_reported(tmp_path: Path, name: str) -> None:
    files = written(tmp_path)
    (tmp_path / name).write_bytes(b"")
    assert not files.damaged()


@pytest.mark.parametrize(("version", "state_format"), [("v1", 1), ("v2", 2), ("v9", None)])
def test_the_newest_commit_names_the_format_of_the_state(
    tmp_path: Path, version: str, state_format: int | None
) -> None:
    files = written(tmp_path)
    assert files_of(tmp_path / "none").state_format is None
    (tmp_path / "commits" / "2").write_text(f'{version}\n{{"nextBatchWatermarkMs":0,"stateUniqueIds":{{}}}}')
    assert files.state_format == state_format
    assert bool(files.damaged()) == (state_format is None)


def test_missing_files_are_named(tmp_path: Path) -> None:
    files = written(tmp_path)
    (tmp_path / "metadata").unlink()
    (tmp_path / "offsets" / "2").unlink()
    assert files.damaged() == [
        f"{tmp_path / name} is damaged (it does not exist)" for name in ("metadata", "offsets/2")
    ]


@pytest.mark.parametrize("lost", [("3",), ("2", "3"), ("0", "1", "2", "3")])
def test_offsets_of_committed_batches_that_a_copy_lacks_are_named(tmp_path: Path, lost: tuple[str, ...]) -> None:
    files = written(tmp_path, batches=4)
    for name in (*lost, "4"):
        (tmp_path / "offsets" / name).unlink()
    named = [f"{tmp_path}/offsets/{name} is damaged (it does not exist)" for name in lost if name in "23"]
    assert files.damaged() == named


OF_TOPIC = 'v1\n{"batchWatermarkMs":0}\n{"observations":{"0":7,"1":0}}'


@pytest.mark.parametrize("content", [OF_TOPIC, "", OF_TOPIC[:20], OF_TOPIC[:-3], 'v1\n{}\n{"observations":7}'])
def test_a_state_with_damaged_offsets_of_a_topic_is_set_aside(tmp_path: Path, content: str) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    written(checkpoint.spark, batches=0)
    record_source(checkpoint, CheckpointSource(kind="kafka", starting_offsets={"observations": {0: 0}}))
    (checkpoint.spark / "offsets" / "0").write_text(OF_TOPIC)
    (checkpoint.spark / "offsets" / "1").write_text(content)

    why = checkpoint.why_no_state(1)

    if content == OF_TOPIC:
        assert why is None
        return
    assert str(why).startswith(f"{checkpoint.spark / 'offsets' / '1'} is damaged")
    (tmp_path / "spark.before-1").mkdir()
    sentence = set_state_aside(checkpoint, str(why))
    assert sentence.startswith(
        f"Spark's state in {checkpoint.spark} is set aside: {why}. It is built again from the rel"
    )
    assert (tmp_path / "spark.before-1" / "offsets" / "1").exists(), "the newest one is kept"
    assert not checkpoint.spark.exists()


def test_the_number_of_partitions_is_fixed_by_a_first_batch_that_was_only_planned(tmp_path: Path) -> None:
    """Spark repeats it with the number that it was planned with, and ignores the configured one."""
    checkpoint = Checkpoint(folder=tmp_path)
    files = written(checkpoint.spark, batches=0)
    (checkpoint.spark / "offsets" / "0").write_text(
        'v1\n{"conf":{"spark.sql.shuffle.partitions":"2"}}\n{"observations":{"0":7}}'
    )
    assert files.partitions == 2
    assert checkpoint.why_no_state(4) == "its state has 2 partitions, and pipeline.partitions is 4"
