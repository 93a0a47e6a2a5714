"""What a query on a relay's topic says about itself: what it has read to the end, and why it ended."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from connectors.settings import TopicSection
from streaming.pipeline import query as query_module
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.kafka_source import TopicSource
from streaming.pipeline.query import JobError, Query, topics_read
from streaming.pipeline.step import Step

BEGAN_MS = 1_800_000_000_000
SOURCE = TopicSource(
    connection=TopicSection(bootstrap=("k:1",), topic="a"),
    rows_per_batch=5,
    starting_offsets={"a": {}, "b": {}},
    clusters={},
)


def progress(end: str, latest: str) -> dict[str, Any]:
    return {"timestamp": "2027-01-15T08:00:00.000Z", "sources": [{"endOffset": end, "latestOffset": latest}]}


class Running:
    """A query that never waits for data, or that has ended."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.status = {"isDataAvailable": True, "message": "Processing new data"}
        self.lastProgress = progress('{"a":{"0":7},"b":{"0":3}}', '{"a":{"0":7},"b":{"0":9}}')

    def awaitTermination(self, _: int) -> bool:
        raise PySparkException(self.error)


def started(running: Running, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    unused: Any = None
    monkeypatch.setattr(query_module, "start", lambda *_: running)
    query = Query(unused, Checkpoint(folder=folder), unused, SOURCE)
    query.start(Step({}))
    return query


def test_a_topic_is_read_if_the_newest_batch_ends_where_the_topic_ended() -> None:
    read = topics_read(progress('{"a":{"0":7,"1":2},"b":{"0":3}}', '{"a":{"0":7,"1":2},"b":{"0":4}}'), BEGAN_MS + 2_500)

    assert read == {"a": 2.5}
    assert topics_read(progress("null", "null"), BEGAN_MS) == {}


def test_a_busy_query_knows_which_topics_it_has_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_module, "wall_ms", lambda: BEGAN_MS + 1_000)

    assert started(Running(), tmp_path, monkeypatch).read_s_ago() == {"a": 1.0}


def test_a_message_whose_time_spark_cannot_hold_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = (
        "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic ct partition 0 offset 5 has "
        "timestamp value -9300000000000000 that overflows when converting to Spark's microsecond-precision "
        "TimestampType."
    )

    with pytest.raises(JobError, match=r"topic ct partition 0 offset 5 has a message whose time .*LogAppendTime"):
        started(Running(error), tmp_path, monkeypatch).wait(1)
