"""`kraftwatch run` with a checkpoint that is not for it: one sentence, and no file of the checkpoint is changed."""

from collections.abc import Iterator
from functools import partialmethod
from pathlib import Path

import pytest

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
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
        assert "is still in use after 0 s: another kraftwatch holds its lock" in refusal(checkpoint, endpoint)


def test_checkpoint_of_another_cluster_is_refused(checkpoint: Checkpoint, endpoint: str) -> None:
    files = [path for path in checkpoint.folder.rglob("*") if path.suffix in (".json", ".db")]
    before = {path: path.read_bytes() for path in files}

    assert (
        "answers as cluster farm-cluster-000000000, but this checkpoint belongs to cluster AnotherClusterIdXXXXXX"
        in refusal(checkpoint, endpoint)
    )
    assert {path: path.read_bytes() for path in files} == before


@pytest.mark.parametrize(
    ("offset", "sentence"),
    [
        ('v1\n{}\n{"journal": "00", "sequence": 1}', "has Spark's offsets but no journal/"),
        ("", "offsets/0 is damaged (it is empty): run `kraftwatch checkpoint repair --checkpoint "),
    ],
)
def test_checkpoint_without_a_file_that_belongs_to_it_is_refused(
    checkpoint: Checkpoint, endpoint: str, offset: str, sentence: str
) -> None:
    checkpoint.journal.rename(checkpoint.folder / "kept")
    offsets = checkpoint.spark / "offsets"
    offsets.mkdir(parents=True)
    (checkpoint.spark / "metadata").write_text('{"id": "a"}')
    (offsets / "0").write_text(offset)

    assert sentence in refusal(checkpoint, endpoint)
    assert not checkpoint.journal.exists()
