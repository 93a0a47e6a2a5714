"""What a query says about itself, in one sentence: why it ended."""

import threading
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from streaming.pipeline import query as queries
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.query import TOO_SLOW, Query
from streaming.pipeline.spark.errors import CheckpointInUseError, JobError, PassingError, StateError

UNUSED: Any = None


class RunningQuery:
    """A query that ends with the given error."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem

    def awaitTermination(self) -> None:
        if self.problem is not None:
            raise self.problem


def started(running: RunningQuery, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Query:
    monkeypatch.setattr(queries, "start", lambda *_: running)
    query = Query(Checkpoint(folder=folder), UNUSED)
    query.start(UNUSED, ClusterProcessor({}))
    return query


ENDED = "[STREAM_FAILED] Query [id = 3522d8c3, runId = ab547ac6] terminated with exception:"
OFFSET_EXISTS = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 10."
OFFSET_BEING_WRITTEN = "Multiple streaming queries are concurrently using s3a://bucket/x/offsets. SQLSTATE: XXKST"


@pytest.mark.parametrize(
    ("problem", "sentence"),
    [
        (None, "ended by itself"),
        (
            PySparkException("Batch 7 failed\nCaused by: java.io.IOException: disk\n at x"),
            "failed: Caused by: java.io.IO",
        ),
        (
            PySparkException("Batch 7 failed\nCaused by: java.io.IOException: disk\n\tat a.SparkErrorUtils.tried(E:8)"),
            "failed: Caused by: java.io.IOException: disk",
        ),
        (PySparkException(f"{ENDED} Broken pipe SQLSTATE: XXKST"), "failed: Broken pipe"),
        (PySparkException(f"{ENDED}  SQLSTATE: XXKST"), "failed: Spark gives no reason: see its log, spark.log"),
        (PySparkException(""), "failed: PySparkException"),
        (Py4JError("An error occurred while calling o1"), "failed: An error occurred while calling o1"),
        (Py4JNetworkError("Answer from Java side is empty"), "Java process has ended (killed, or out of memory)"),
        (ConnectionRefusedError(111, "Connection refused"), "Java process has ended (killed, or out of memory)"),
        (PySparkException(OFFSET_EXISTS), "failed: another job uses file:///"),
        (PySparkException(OFFSET_BEING_WRITTEN), "failed: another job uses file:///"),
    ],
)
def test_an_ended_query_is_reported_in_one_sentence(
    problem: Exception | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = started(RunningQuery(problem), tmp_path, monkeypatch)

    with pytest.raises(JobError) as ended:
        query.wait(1)

    assert sentence in str(ended.value)
    assert "\n" not in str(ended.value)
    # Whether anything is to be done, and what, only shows when it repeats.
    assert not any(advice in str(ended.value) for advice in ("restart", "move"))


WORKER = """  File "/opt/kraftwatch/streaming/pipeline/cluster_processor.py", line 250, in _restored
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
    query = started(RunningQuery(PySparkException(problem)), tmp_path, monkeypatch)

    with pytest.raises(StateError) as ended:
        query.wait(1)

    assert ended.value.why.startswith(why)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"{TOO_SLOW}.\nCaused by: java.net.SocketTimeoutException: Timed out", PassingError),
        ("Caused by: java.io.IOException: No space left on device", PassingError),
        (OFFSET_EXISTS, CheckpointInUseError),
    ],
)
def test_what_time_or_only_a_person_can_repair_is_an_error_of_its_own(
    text: str, kind: type[JobError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(kind):
        started(RunningQuery(PySparkException(text)), tmp_path, monkeypatch).wait(1)


def test_a_query_whose_java_hangs_is_waited_for_as_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    continues = threading.Event()
    running = RunningQuery()
    monkeypatch.setattr(running, "awaitTermination", continues.wait)
    query = started(running, tmp_path, monkeypatch)

    query.wait(0)
    continues.set()
    with pytest.raises(JobError, match="ended by itself"):
        query.wait(60)


def test_a_batch_of_the_former_query_does_not_show_that_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delivers: list[Any] = []

    def start(*given: Any) -> RunningQuery:
        delivers.append(given[3])
        return RunningQuery()

    monkeypatch.setattr(queries, "start", start)
    query = Query(Checkpoint(folder=tmp_path), lambda *_: None)  # type: ignore[arg-type]
    query.start(UNUSED, ClusterProcessor({}))
    query.start(UNUSED, ClusterProcessor({}))
    former, present = delivers

    former(UNUSED, 7)
    assert not query.has_evaluated
    present(UNUSED, 7)
    assert query.has_evaluated
