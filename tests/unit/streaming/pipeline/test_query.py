"""What a query says about itself, in one sentence: why it ended."""

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from streaming.pipeline import query as queries
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.query import TOO_SLOW, Query
from streaming.pipeline.spark.errors import JobError, StateError
from streaming.pipeline.step import Step


class Running:
    """A query that ends with the given error."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem

    def awaitTermination(self, timeout: float) -> bool:
        if self.problem is not None:
            raise self.problem
        return True


def started(running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    unused: Any = None
    monkeypatch.setattr(queries, "start", lambda *_: running)
    query = Query(unused, Checkpoint(folder=folder), unused)
    query.start(Step({}))
    return query


OFFSET_EXISTS = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 10."
OFFSET_BEING_WRITTEN = "Multiple streaming queries are concurrently using s3a://bucket/x/offsets. SQLSTATE: XXKST"


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (None, "ended by itself; restart the job"),
        (PySparkException("Batch 7 failed\nCaused by: java.io.IOException: disk\n at x"), "IOException: disk; restart"),
        (
            PySparkException("Batch 7 failed\nCaused by: java.io.IOException: disk\n\tat a.SparkErrorUtils.tried(E:8)"),
            "failed: Caused by: java.io.IOException: disk; restart the job, and if this repeats, move /",
        ),
        (PySparkException(""), "PySparkException; restart the job"),
        (Py4JError("An error occurred while calling o1"), "An error occurred while calling o1; restart the job"),
        (Py4JNetworkError("Answer from Java side is empty"), "Java process has ended (killed, or out of memory); rest"),
        (ConnectionRefusedError(111, "Connection refused"), "Java process has ended (killed, or out of memory); rest"),
        (PySparkException(OFFSET_EXISTS), "failed: another job uses file:///"),
        (PySparkException(OFFSET_BEING_WRITTEN), "failed: another job uses file:///"),
    ],
)
def test_an_ended_query_is_reported_in_one_sentence(
    problem: Exception | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(Running(problem), tmp_path, monkeypatch)

    with pytest.raises(JobError) as ended:
        query.wait(1)

    assert sentence in str(ended.value)
    assert "\n" not in str(ended.value)


WORKER = """  File "/opt/kraftwatch/streaming/pipeline/step.py", line 250, in _restored
streaming.replay.state_codec.UnusableStateError: the state of cluster prod has version 9, and this kraftwatch reads ver
"""
PLANNER = """  File "/opt/kraftwatch/connectors/relay/topic_follower.py", line 185, in _note_error
connectors.relay.relay_message.RowsLostError: the topic a no longer has rows that were not read (its retention is too
"""


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (WORKER, "the state of cluster prod has version 9, and this"),
        (PLANNER, "the topic a no longer has rows that were not read (its retention is too"),
    ],
)
def test_a_query_that_needs_a_new_state_says_why(
    problem: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(Running(PySparkException(problem)), tmp_path, monkeypatch)

    with pytest.raises(StateError) as ended:
        query.wait(1)

    assert ended.value.why.startswith(why)
    assert "restart the job, which builds it again" in str(ended.value)


def test_the_query_is_started_again_however_often_the_machine_is_too_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_slow = PySparkException(f"{TOO_SLOW}.\nCaused by: java.net.SocketTimeoutException: Timed out")
    query, starts = started(Running(too_slow), tmp_path, monkeypatch), 1

    def start(*_: object) -> Running:
        # Spark reports it where the query is started, or where its end is awaited.
        nonlocal starts
        starts += 1
        if starts % 2:
            raise too_slow
        return Running(too_slow if starts < 40 else None)

    monkeypatch.setattr(queries, "start", start)
    with pytest.raises(JobError, match="ended by itself"):
        while True:
            query.wait(1)

    assert starts == 40
