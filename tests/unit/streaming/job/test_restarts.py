"""What has ended the query, and what is started again inside the job: the query, Spark, or neither."""

import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.errors import UnavailableStoreError
from connectors.process.signals import SignalFlag
from streaming.config import Config
from streaming.job import monitoring as module
from streaming.job.cluster_identity import ClusterIds, UnavailableClusterError
from streaming.job.dependencies import Dependencies, Dependency
from streaming.job.monitoring import Monitoring
from streaming.job.restarts import Restarts, Waiting
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.spark.errors import (
    CheckpointInUseError,
    HangingError,
    JobError,
    PassingError,
    StateError,
    SubmittedSparkError,
)
from streaming.pipeline.topic_files import TopicState
from tests.unit.streaming.job.running_configuration import running_with

UNUSED: Any = None
FAILS, BUSY = JobError("the streaming query failed: Broken pipe"), PassingError("the machine is busy")
STATE = StateError("it is of version 9")
ELSEWHERE = CheckpointInUseError("another job uses file:///spark: give each job its own place")
COMPLETES = None
HANGS = HangingError("it completes no batch")
NO_BASELINE = "cluster prod: the topic has no baseline: send SIGHUP to its relay"


class World:
    """A monitoring whose query ends with the given problems, one after the other; it notes what is started when."""

    def __init__(self, monitoring: Monitoring, problems: Sequence[JobError | None]) -> None:
        self.monitoring = monitoring
        self.done: list[str] = []
        self.java_answers = self.java_is_ours = True
        self.unreadable: str | None = None
        self.dependencies = Dependencies(self.done.append)
        self.runs = True
        self.has_evaluated = False
        self.progress = 0
        self.baseline_at_s = 0.0
        self._problems = [*problems]
        self._now = 0.0
        self.given: dict[str, Any] = {
            "_query": self,
            "_dependencies": self.dependencies,
            "_stop": SimpleNamespace(wait=self._pause),
            "_spark": self,
            "_restarts": Restarts(lambda: self._now),
            "_waiting": Waiting(lambda: self._now),
            "_silence": Waiting(lambda: self._now),
            "_started_session": self._start_spark,
            "_start_processor": self._start_processor,
            "_begin_understudy": self._begin_understudy,
        }

    def wait(self, seconds: int) -> None:
        """As `Query.wait`."""
        if self._problems[0] is HANGS:
            self._now += seconds
            return
        if (problem := self._problems.pop(0)) is not None:
            raise problem
        self.has_evaluated = True
        self.progress += 1

    def _begin_understudy(self, *, renewed: bool = False) -> None:
        if renewed or "understudy" not in self.done:
            self.done.append("understudy")

    def stop(self) -> None:
        self.done.append("old session stopped")

    def answers(self, _: object) -> bool:
        return self.java_answers

    def kill_java(self) -> bool:
        self.done += ["Java killed"] if self.java_is_ours else []
        return self.java_is_ours

    def run(self) -> list[str]:
        """Waits until the query has ended with each of the problems, and was started again each time."""
        while self._problems or self.monitoring._restarts.problem is not None or not self.runs:
            self.monitoring.wait(1)
        return self.done

    def _pause(self, seconds: float) -> bool:
        # No signal comes: waiting for one is no pause.
        self._now += seconds if seconds >= 1 else 0
        return False

    def _start_spark(self) -> Any:
        self.done.append("Spark")
        self.java_answers = True
        return self

    def identify_in_topics(self, *_: object, new_state: bool) -> ClusterIds:
        assert new_state
        unavailable = {} if self._now >= self.baseline_at_s else {"prod": UnavailableClusterError(NO_BASELINE)}
        return ClusterIds(ids={}, unavailable=unavailable)

    def set_state_aside(self, checkpoint: Checkpoint, why: str, spark: object) -> str:
        self.done.append(f"new state: {why}")
        return "the state is set aside"

    def _start_processor(self, *_: object) -> None:
        self.done.append(f"query at {self._now:g} s")
        self.monitoring._settings = self.monitoring._running.identified.settings
        self.runs, self.has_evaluated = True, False
        self.progress += 1
        if self._problems and self._problems[0] is HANGS:
            self._problems.pop(0)


class CallAtOnce:
    """As `SparkCall`: the call has ended when it is waited for."""

    for_s = 0.0

    def __init__(self, _: str, call: Callable[[], object]) -> None:
        self._call = call

    def wait(self, _: float) -> bool:
        self._call()
        return True


def world(folder: Path, monkeypatch: pytest.MonkeyPatch, *problems: JobError | None) -> World:
    config = Config.model_validate(
        {
            "clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}],
            "source": "kafka",
            "relay": {"bootstrap": ["k:9092"], "topic": "observations"},
            "checkpoint": str(folder),
        }
    )
    monitoring = Monitoring(running_with(config), Checkpoint(folder=folder), Dependencies(print), SignalFlag())
    made = World(monitoring, problems)
    for name, value in made.given.items():
        # `begin` makes the query.
        monkeypatch.setattr(monitoring, name, value, raising=name != "_query")
    monkeypatch.setattr(module, "record_ids", lambda *_: None)
    for name in ("answers", "kill_java", "identify_in_topics", "set_state_aside"):
        monkeypatch.setattr(module, name, getattr(made, name))
    monkeypatch.setattr(module, "query_topic", lambda *_: None)
    monkeypatch.setattr(module, "SparkCall", CallAtOnce)
    monkeypatch.setattr(module, "unreadable_state", lambda *_: made.unreadable)
    return made


def test_a_query_that_ends_is_started_again_and_spark_is_missing_until_a_batch_completes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, FAILS)
    made.run()
    assert [one.name for one in made.dependencies.now] == [Dependency.SPARK]
    assert made.done == [
        "Spark is started again: the streaming query failed: Broken pipe; waiting for it",
        "understudy",
        "query at 1 s",
    ]

    made._problems = [COMPLETES]
    made.run()
    assert made.done[3].startswith("spark: it is there again after ")
    assert not made.dependencies.now


def started(done: Sequence[str]) -> str:
    further = ("Spark is", "Spark completes", "spark:", "understudy", "Java")
    return ", ".join(one for one in done if not one.startswith(further))


@pytest.mark.parametrize(
    ("problems", "restarts"),
    [
        ([FAILS], "query at 1 s"),
        # Whatever is wrong may be in the session.
        ([FAILS, FAILS], "query at 1 s, Spark, query at 3 s"),
        ([FAILS, FAILS, FAILS, FAILS], "query at 1 s, Spark, query at 3 s, Spark, query at 7 s, Spark, query at 15 s"),
        # A batch shows that it works.
        ([FAILS, COMPLETES, FAILS, COMPLETES, FAILS], "query at 1 s, query at 2 s, query at 3 s"),
        # A batch may take long: it gets more time after each restart.
        ([COMPLETES, HANGS], "Spark, query at 301 s"),
        ([COMPLETES, HANGS, HANGS, HANGS], "Spark, query at 301 s, Spark, query at 904 s, Spark, query at 2109 s"),
        # The first one as long as a start may.
        ([HANGS], "Spark, query at 902 s"),
        ([BUSY, BUSY, BUSY], "query at 1 s, query at 3 s, query at 7 s"),
        ([STATE], "new state: it is of version 9, query at 1 s"),
        # A new one changed nothing: it is not given up for another.
        ([STATE, STATE], "new state: it is of version 9, query at 1 s, query at 3 s"),
    ],
)
def test_what_is_started_again_is_what_may_have_ended(
    problems: Sequence[JobError | None], restarts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert started(world(tmp_path, monkeypatch, *problems).run()) == restarts


def test_a_new_java_is_started_in_place_of_one_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, FAILS)
    made.java_answers = False
    # The dead Java could not read it.
    made.unreadable = "Spark cannot read it: Java has ended"
    done = [one for one in made.run()[2:] if not one.startswith("spark: it is there again")]
    assert done == ["Java killed", "Spark", "query at 1 s"]


def test_a_state_that_spark_cannot_read_is_replaced_before_the_first_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, FAILS, FAILS)
    made.unreadable = "Spark cannot read it: 7.zip is missing"
    # The second time: the first time, Spark may have ended while it read it.
    expected = "query at 1 s, Spark, new state: Spark cannot read it: 7.zip is missing, query at 3 s"
    assert started(made.run()) == expected


def test_the_gatherer_leaves_the_journal_while_a_state_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, STATE)
    stopped = SimpleNamespace(stop=lambda: made.done.append("gatherer stops"), only_understudy_has=False)
    monkeypatch.setattr(made.monitoring, "input", stopped)

    def started_input() -> Any:
        made.done.append("gatherer starts")
        return stopped

    monkeypatch.setattr(made.monitoring, "_started_input", started_input)
    aside = ["gatherer stops", "new state: it is of version 9", "gatherer starts", "understudy", "query at 1 s"]
    assert made.run()[2:] == aside


def test_of_spark_submit_only_the_session_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, FAILS, FAILS)
    made.java_is_ours = False
    assert started(made.run()) == "query at 1 s, old session stopped, Spark, query at 3 s"


@pytest.mark.parametrize("problem", [BUSY, FAILS, STATE])
def test_spark_is_started_again_for_as_long_as_it_takes(
    problem: JobError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, *[problem] * 100)
    assert len([one for one in made.run() if one.startswith("query")]) == 100
    # Each half a minute, after the first ones.
    assert 2_800 < made._now < 3_000


def test_what_is_missing_is_the_newest_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, FAILS, BUSY)
    made.run()
    assert [one.why for one in made.dependencies.now] == ["Spark is started again: the machine is busy"]


def test_the_first_start_waits_for_the_store_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES)
    made.runs = False

    def query_topic(*_: object) -> None:
        if made._now < 300:
            raise UnavailableStoreError("the store does not answer")

    monkeypatch.setattr(module, "query_topic", query_topic)
    monkeypatch.setattr(made.monitoring, "_spark", None)
    assert started(made.run()) == "Spark, query at 300 s"


def test_settings_that_change_while_spark_starts_are_those_of_the_query(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES)
    made.runs = False
    running = made.monitoring._running
    before = running.identified

    def start_processor(*_: object) -> None:
        made._start_processor()
        if running.identified is before:
            running.put_ids({"prod": "another"})
            made.monitoring.change(before)

    monkeypatch.setattr(made.monitoring, "_start_processor", start_processor)
    monkeypatch.setattr(made, "stop", lambda: True)
    assert made.run() == ["query at 0 s", "understudy", "understudy", "query at 0 s"]


def test_a_new_state_begins_as_soon_as_the_topic_has_a_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, STATE)
    made.baseline_at_s = 5
    assert started(made.run()) == "new state: it is of version 9, query at 7 s"


def test_a_baseline_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, STATE)
    made.baseline_at_s = 1000
    for _ in range(100):
        made.monitoring.wait(1)
    (missing,) = made.dependencies.now
    assert missing.why == (
        "Spark is started again: the streaming query cannot continue with its state: it is of version 9, and a new one "
        "cannot begin: cluster prod: the topic has no baseline: send SIGHUP to its relay"
    )
    assert started(made.done) == ""


def test_while_a_batch_takes_long_the_understudy_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, HANGS)
    for _ in range(62):
        made.monitoring.wait(1)
    assert made.done == ["understudy", "Spark completes no batch; waiting for it"]

    made._problems = [COMPLETES]
    made.monitoring.wait(1)
    assert made.done[2].startswith("spark: it is there again after ")
    assert not made.dependencies.now


@pytest.mark.parametrize("name", [one for one in Dependency if one is not Dependency.SPARK])
def test_a_batch_that_waits_for_what_is_missing_does_not_hang(
    name: Dependency, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, HANGS)
    made.dependencies.missing(name, "it is missing")
    for _ in range(1000):
        made.monitoring.wait(1)
    assert started(made.done) == "it is missing; waiting for it"


def test_a_host_that_is_suspended_for_hours_has_no_batch_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, HANGS)
    for _ in range(2):
        made.monitoring.wait(8 * 3600)
    assert made.done == []


def test_without_a_row_in_the_topic_no_batch_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, HANGS)
    read_at = [0.0]
    state = lambda: TopicState(read_to_end_at={"observations": read_at[0]})  # noqa: E731
    monkeypatch.setattr(made.monitoring.input, "topics", state)
    for _ in range(1000):
        read_at[0] = time.monotonic()
        made.monitoring.wait(1)
    assert made.done == []

    # Since then, Spark has not asked for more.
    read_at[0] -= 60
    for _ in range(100):
        made.monitoring.wait(1)
    assert made.done == ["understudy", "Spark completes no batch; waiting for it"]


def test_a_restart_waits_for_the_store_that_knows_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, FAILS)

    def query_topic(*_: object) -> None:
        if made._now < 300:
            raise UnavailableStoreError("the store does not answer")

    monkeypatch.setattr(module, "query_topic", query_topic)
    assert started(made.run()) == "query at 300 s"


def test_a_java_of_spark_submit_that_hangs_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES, HANGS)
    made.java_is_ours = False
    with pytest.raises(SubmittedSparkError, match=r"^spark-submit's Java process hangs \(.*\): submit the job again$"):
        for _ in range(1000):
            made.monitoring.wait(1)


def test_a_query_that_does_not_stop_for_a_reload_is_restarted_with_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, COMPLETES)
    made.run()
    monkeypatch.setattr(made, "stop", lambda: False)
    before = made.monitoring._running.identified
    made.monitoring.change(replace(before, settings={}))
    made._problems = [COMPLETES]
    assert started(made.run()) == "Spark, query at 1 s"


def test_another_job_on_the_checkpoint_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, ELSEWHERE)
    with pytest.raises(CheckpointInUseError, match=r"give each job its own place$"):
        made.run()
    assert made.done == []


def test_a_disk_that_becomes_full_while_spark_is_started_again_is_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(tmp_path, monkeypatch, FAILS)
    made.java_answers = False

    def start_spark() -> Any:
        if made._now < 300:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/job/log/log4j2.properties")
        return made._start_spark()

    monkeypatch.setattr(made.monitoring, "_started_session", start_spark)
    assert started(made.run()) == "Spark, query at 301 s"


def test_nothing_is_started_while_the_disk_of_the_job_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(tmp_path, monkeypatch, FAILS)
    monkeypatch.setattr(module, "full_disk", lambda _: "the disk of /job is full" if made._now < 300 else None)
    assert started(made.run()) == "query at 300 s"
