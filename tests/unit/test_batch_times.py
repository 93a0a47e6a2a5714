"""The times of micro-batches that `make bench ONLY=latency` reads from a checkpoint."""

import json
import os
from pathlib import Path

from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from streaming.pipeline.checkpoint import Checkpoint
from tests.bench.batch_times import BatchTimes, batch_of
from tests.bench.percentiles import distribution, percentiles
from tests.eventually import eventually


def write(path: Path, text: str, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))


def write_batch(checkpoint: Checkpoint, number: int, *, end: int, at: float) -> None:
    """Writes the files of a batch that is planned at `at`; its state follows after 1 s, its commit after 2 s."""
    offsets = json.dumps({"journal": "j", "sequence": end})
    write(checkpoint.spark / "offsets" / str(number), f"v1\n{{}}\n{offsets}\n", at)
    write(checkpoint.spark / "state" / "0" / "0" / f"{number + 1}.changelog", "", at + 1)
    write(checkpoint.spark / "commits" / str(number), "v1\n", at + 2)


def row() -> Observation:
    return Observation(cluster="a", kind=ObservationKind.VIEW, observed_at_ms=1, payload=b"")


def test_times_of_batches_are_those_of_their_files(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal) as journal:
        journal.append([row()])
        journal.publish()
        write_batch(checkpoint, 0, end=1, at=100)
        with BatchTimes(checkpoint) as times:
            eventually(lambda: times.published(0) < float("inf"), within_s=10)
            journal.append([row(), row()])
            journal.publish()
            eventually(lambda: times.published(2) < float("inf"), within_s=10)
            write_batch(checkpoint, 1, end=3, at=200)

    assert times.published(0) <= times.published(1) == times.published(2)
    assert times.published(3) == float("inf")
    batches = times.batches()
    assert [(each.end, each.planned, each.stepped, each.committed) for each in batches] == [
        (1, 100, 101, 102),
        (3, 200, 201, 202),
    ]
    assert [batch_of(sequence, batches) for sequence in (0, 1, 2, 3)] == [
        None,
        (batches[1], batches[0]),
        (batches[1], batches[0]),
        None,
    ]


def test_percentiles_are_values_that_were_measured() -> None:
    values = list(range(1, 101))

    assert percentiles(values) == {"p50": 50, "p95": 95, "p99": 99, "max": 100, "mean": 50.5}
    assert percentiles([7.0])["p50"] == 7
    assert percentiles([]) == {}
    assert distribution(values)[0] == 1
    assert distribution(values)[-1] == 100
    assert len(distribution(values)) == 51
