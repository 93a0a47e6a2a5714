"""`kraftwatch run` with a checkpoint that is not for it: one sentence, and no file of the checkpoint is changed."""

from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import pytest

from connectors.observations.observation import Observation, ObservationKind
from connectors.process.signals import SignalFlag
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from streaming.config import Config
from streaming.job.dependencies import Dependencies
from streaming.job.start_up import prepare
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import usage_error
from tests.farm.farm import address
from tests.farm.farm_process import running_farm


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """The checkpoint of a job that has recorded a row."""
    checkpoint = Checkpoint(folder=tmp_path / "checkpoint")
    with JournalWriter(checkpoint.journal) as writer:
        writer.append([Observation(cluster="test", kind=ObservationKind.FAILED, observed_at_ms=1)])
    job_database(checkpoint.folder).create()
    checkpoint.record_cluster_ids({"test": "AnotherClusterIdXXXXXX"})
    return checkpoint


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Where a controller of the cluster `farm-cluster-000000000` listens."""
    with running_farm(1) as farm:
        yield f"{address(0, 1)}:{farm.port}"


def refusal(checkpoint: Checkpoint, endpoint: str) -> str:
    return usage_error("run", "--cluster", f"test={endpoint}", "--checkpoint", checkpoint.folder)


def test_checkpoint_in_use_is_refused(checkpoint: Checkpoint, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with checkpoint.held():
        monkeypatch.setattr(Checkpoint, "held", partialmethod(Checkpoint.held, wait_s=0))
        assert "is in use: another kraftwatch holds its lock" in refusal(checkpoint, endpoint)


def test_checkpoint_of_another_cluster_is_refused(checkpoint: Checkpoint, endpoint: str) -> None:
    files = [path for path in checkpoint.folder.rglob("*") if path.suffix in (".json", ".db")]
    before = {path: path.read_bytes() for path in files}

    assert (
        "answers as cluster farm-cluster-000000000, but this checkpoint belongs to cluster AnotherClusterIdXXXXXX"
        in refusal(checkpoint, endpoint)
    )
    assert {path: path.read_bytes() for path in files} == before


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        ('v1\n{}\n{"journal": "00", "sequence": 1}', "journal/ is not the one that it has read"),
        ("", "spark/offsets/0 is damaged (it is empty)"),
    ],
)
def test_a_state_with_which_spark_cannot_continue_is_set_aside(
    checkpoint: Checkpoint, endpoint: str, offset: str, why: str
) -> None:
    checkpoint.identity.unlink()
    offsets = checkpoint.spark / "offsets"
    offsets.mkdir(parents=True)
    (checkpoint.spark / "metadata").write_text('{"id": "a"}')
    (offsets / "0").write_text(offset)
    config = Config.model_validate(
        {"clusters": [{"name": "test", "bootstrap": [endpoint]}], "checkpoint": str(checkpoint.folder)}
    )

    said = str(
        prepare(config, checkpoint, may_wait=False, stop=SignalFlag(), dependencies=Dependencies(print)).set_aside
    )

    assert said.startswith(f"Spark's state in {checkpoint.spark} is set aside: ")
    assert why in said
    assert (checkpoint.folder / "spark.before-1" / "offsets" / "0").read_text() == offset
    assert (
        prepare(config, checkpoint, may_wait=False, stop=SignalFlag(), dependencies=Dependencies(print)).set_aside
        is None
    )
