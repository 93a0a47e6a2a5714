"""However the streaming query ends by itself, it is one sentence."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from streaming.pipeline import query as queries
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.query import TOO_SLOW, JobError, Query
from streaming.pipeline.step import Step


class Ends:
    """Ends with the given error."""

    def __init__(self, problem: Exception | None) -> None:
        self._problem = problem

    def awaitTermination(self, timeout: float) -> bool:
        if self._problem is not None:
            raise self._problem
        return True


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (None, "ended by itself"),
        (
            PySparkException("Batch 7 failed\nCaused by: java.io.IOException: disk\n at x"),
            "java.io.IOException: disk",
        ),
        (
            PySparkException(
                "Batch 7 failed\nCaused by: java.io.IOException: disk\n\tat a.SparkErrorUtils.tried(E.scala:8)"
            ),
            "failed: Caused by: java.io.IOException: disk; restart the job, and if this repeats, run `kraftwatch check",
        ),
        (PySparkException(""), "PySparkException"),
        (Py4JError("An error occurred while calling o1"), "An error occurred while calling o1"),
        (Py4JNetworkError("Answer from Java side is empty"), "Spark's Java process has ended"),
        (ConnectionRefusedError(111, "Connection refused"), "Spark's Java process has ended"),
    ],
)
def test_an_ended_query_is_reported_in_one_sentence(problem: Exception | None, sentence: str, tmp_path: Path) -> None:
    query = Query(None, Checkpoint(folder=tmp_path), None)  # type: ignore[arg-type]  # unused
    query._running = Ends(problem)  # type: ignore[assignment]

    with pytest.raises(JobError) as ended:
        query.wait(1)

    assert sentence in str(ended.value)
    assert "\n" not in str(ended.value)
    assert "restart the job" in str(ended.value)


def test_the_query_is_started_again_however_often_the_machine_is_too_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_slow = PySparkException(f"{TOO_SLOW}.\nCaused by: java.net.SocketTimeoutException: Timed out")
    started: list[Ends] = []

    def start(*_: object) -> Ends:
        # Spark reports it where the query is started, or where its end is awaited.
        if len(started) % 2:
            started.append(Ends(None))
            raise too_slow
        started.append(Ends(too_slow if len(started) < 40 else None))
        return started[-1]

    monkeypatch.setattr(queries, "start", start)
    query = Query(None, Checkpoint(folder=tmp_path), None)  # type: ignore[arg-type]  # unused
    query.start(Step({}))

    with pytest.raises(JobError, match="ended by itself"):
        while True:
            query.wait(1)

    assert len(started) == 41
