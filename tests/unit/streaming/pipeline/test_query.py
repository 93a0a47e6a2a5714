"""What a query says about itself: which topics it has read to the end, and, in one sentence, why it ended."""

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from connectors.settings import TopicSection
from streaming.pipeline import query as queries
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.kafka_source import TopicSource
from streaming.pipeline.query import TOO_SLOW, JobError, Query, StateError, topics_read
from streaming.pipeline.step import Step

BEGAN_MS = 1_800_000_000_000
TOPICS = TopicSource(
    connection=TopicSection(bootstrap=("k:1",), topic="a"),
    rows_per_batch=5,
    starting_offsets={"a": {}, "b": {}},
    clusters={},
)


def progress(end: str, latest: str) -> dict[str, Any]:
    return {"timestamp": "2027-01-15T08:00:00.000Z", "sources": [{"endOffset": end, "latestOffset": latest}]}


class Running:
    """A query that never waits for data, and ends with the given error."""

    lastProgress = progress('{"a":{"0":7},"b":{"0":3}}', '{"a":{"0":7},"b":{"0":9}}')

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.status = {"isDataAvailable": True, "message": "Processing new data"}

    def awaitTermination(self, timeout: float) -> bool:
        if self.problem is not None:
            raise self.problem
        return True


def started(running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    unused: Any = None
    monkeypatch.setattr(queries, "start", lambda *_: running)
    query = Query(unused, Checkpoint(folder=folder), unused, TOPICS)
    query.start(Step({}))
    return query


def test_a_topic_is_read_if_the_newest_batch_ends_where_the_topic_ended() -> None:
    read = topics_read(progress('{"a":{"0":7,"1":2},"b":{"0":3}}', '{"a":{"0":7,"1":2},"b":{"0":4}}'), BEGAN_MS + 2_500)

    assert read == {"a": 2.5}
    assert topics_read(progress("null", "null"), BEGAN_MS) == {}


def test_a_busy_query_knows_which_topics_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "wall_ms", lambda: BEGAN_MS + 1_000)

    assert started(Running(), tmp_path, monkeypatch).read_s_ago() == {"a": 1.0}


OVERFLOWS = (
    "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic ct partition 0 offset 5 has timestamp "
    "value -9300000000000000 that overflows when converting to Spark's microsecond-precision TimestampType."
)


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
        (
            PySparkException(OVERFLOWS),
            "topic ct partition 0 offset 5 has a message whose time Spark cannot represent: set message.timestamp.type",
        ),
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
ROWS_LOST = "Cannot fetch offset 5 (GroupId: spark-kafka-source, TopicPartition: a-0). Some data may have been lost"


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (WORKER, "the state of cluster prod has version 9, and this"),
        (ROWS_LOST, "the topic a, b no longer has rows that were not read (its retention is too short, or"),
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
