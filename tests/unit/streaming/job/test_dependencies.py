"""What is named as missing, when it is said, and when it is there again."""

import threading
from collections.abc import Callable, Sequence

import pytest

from streaming.job import dependencies as module
from streaming.job.dependencies import Checks, Dependencies, Dependency, Missing
from streaming.job.dependency_checks import Executors, FileSystem
from tests.eventually import eventually


@pytest.fixture(autouse=True)
def _short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LASTS_S", 0.05)
    monkeypatch.setattr(module, "_ASK_EVERY_S", 0.01)
    monkeypatch.setattr(module, "_ANSWER_S", 0.05)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def dependencies(said: list[str]) -> Dependencies:
    return Dependencies(said.append)


def test_the_beginning_and_the_end_are_said_once(dependencies: Dependencies, said: list[str]) -> None:
    for why in ("the store does not answer", "the store refuses"):
        dependencies.missing(Dependency.STORE, why)
    assert [(one.name, one.why) for one in dependencies.now] == [("store", "the store refuses")]
    assert (dependencies.states()["store"], dependencies.states()["topic"]) == (True, False)
    dependencies.found(Dependency.STORE)
    dependencies.found(Dependency.STORE)
    assert dependencies.now == []
    assert said == ["the store does not answer; waiting for it", "store: it is there again after 0.0 s"]


def test_what_is_seen_must_last(dependencies: Dependencies) -> None:
    answers = iter(["full", None])
    checks = Checks(
        dependencies, batch_age_s=lambda: 0, seen={Dependency.DISK: lambda: next(answers, "full")}, asked={}
    )
    checks.run()
    checks.run()
    assert dependencies.now == []
    eventually(lambda: runs_until_missing(checks, dependencies, Dependency.DISK), within_s=5)


def runs_until_missing(checks: Checks, dependencies: Dependencies, name: Dependency) -> str:
    checks.run()
    one = only(dependencies)
    assert one.name is name
    return one.why


def only(dependencies: Dependencies) -> Missing:
    missing = dependencies.now
    assert len(missing) == 1
    return missing[0]


def test_nothing_is_asked_while_batches_come(dependencies: Dependencies) -> None:
    def never() -> str | None:
        raise AssertionError("asked")

    Checks(dependencies, batch_age_s=lambda: 9, seen={}, asked={Dependency.TOPIC: (never, lambda: "no answer")}).run()
    assert dependencies.now == []


def test_a_request_that_hangs_is_named_and_ends_with_the_next_batch(dependencies: Dependencies) -> None:
    age, hang = [99.0], threading.Event()

    def hangs() -> str | None:
        hang.wait(10)
        return None

    checks = Checks(
        dependencies,
        batch_age_s=lambda: age[0],
        seen={},
        asked={Dependency.CHECKPOINT: (hangs, lambda: "s3a://b/k does not answer")},
    )
    why = eventually(lambda: runs_until_missing(checks, dependencies, Dependency.CHECKPOINT), within_s=5)
    assert why == "s3a://b/k does not answer"
    age[0] = 0
    checks.run()
    assert dependencies.now == []
    hang.set()


def test_an_answer_of_the_outage_before_says_nothing_about_this_one(dependencies: Dependencies) -> None:
    age = [99.0]
    ask, answers = answering(["the brokers do not answer"])
    checks = Checks(
        dependencies, batch_age_s=lambda: age[0], seen={}, asked={Dependency.TOPIC: (ask, lambda: "no answer")}
    )
    eventually(lambda: runs_until_missing(checks, dependencies, Dependency.TOPIC), within_s=5)
    age[0] = 0
    checks.run()
    age[0] = 99
    answers.clear()
    checks.run()
    assert dependencies.now == []


def test_a_java_that_hangs_says_nothing_about_the_file_system(dependencies: Dependencies) -> None:
    hang, java, asked = threading.Event(), list[str | None]([None, "it answers"]), list[str | None]()

    def ask_java() -> str | None:
        asked.append(java[0])
        return java[0]

    files = FileSystem(lambda: "" if hang.wait(10) else None, ask_java, "s3a://b/k does not answer")
    checks = Checks(
        dependencies,
        batch_age_s=lambda: 99,
        seen={},
        asked={Dependency.CHECKPOINT: (files.ask, files.unanswered)},
    )
    eventually(lambda: runs_until_asked(checks, asked), within_s=5)
    assert dependencies.now == []
    java.reverse()
    assert eventually(lambda: runs_until_missing(checks, dependencies, Dependency.CHECKPOINT), within_s=9)
    hang.set()


def runs_until_asked(checks: Checks, asked: Sequence[str | None]) -> None:
    checks.run()
    assert len(asked) > 3, "Java is asked only about a file system that does not answer"


def answering(answers: list[str]) -> tuple[Callable[[], str | None], list[str]]:
    return (lambda: answers[0] if answers else None), answers


def test_lost_executors_are_counted_and_a_smaller_cluster_is_accepted_in_time() -> None:
    at, count = [0.0], [2]
    executors = Executors(lambda: count[0], clock=lambda: at[0])
    assert executors() is None
    at[0], count[0] = 6, 1
    assert executors() == "1 of 2 executors of the job are lost"
    at[0], count[0] = 12, 2
    assert executors() is None
    at[0], count[0] = 18, 1
    assert executors() is not None
    at[0] = 700
    assert executors() is None
