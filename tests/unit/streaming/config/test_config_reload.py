"""The configuration file of a running job: when it is read, and what of one that cannot be."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from connectors.errors import UsageError
from streaming.config import Config, checked, load
from streaming.config.reload import ConfigFile, refuse_fixed

GOOD = 'clusters: [{name: prod, bootstrap: ["c1:9093"]}]\n'


class Job:
    """Takes what it is given, and keeps it."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def change(self, config: Config) -> Sequence[str]:
        self.taken.append(",".join(section.name for section in config.clusters))
        return ["clusters"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kraftwatch.yaml"
    path.write_text(GOOD)
    return path


@pytest.fixture
def file(path: Path) -> Iterator[ConfigFile]:
    with ConfigFile(path, lambda: load(path)) as file:
        yield file


def looks(file: ConfigFile, job: Job, times: int) -> list[str]:
    """What was taken in so many looks."""
    before = len(job.taken)
    for _ in range(times):
        file.look(job.change)
    return job.taken[before:]


def test_a_file_that_does_not_change_is_not_read(file: ConfigFile) -> None:
    assert looks(file, Job(), 5) == []


def test_a_change_is_taken_once_when_it_has_stood_for_a_look(file: ConfigFile, path: Path) -> None:
    job = Job()
    path.write_text(GOOD.replace("prod", "half-written"))
    assert looks(file, job, 1) == []
    path.write_text(GOOD.replace("prod", "production"))
    assert looks(file, job, 1) == []
    assert looks(file, job, 5) == ["production"]


def test_sighup_reads_it_at_once_changed_or_not(file: ConfigFile) -> None:
    job = Job()
    os.kill(os.getpid(), signal.SIGHUP)
    assert looks(file, job, 3) == ["prod"]


def test_after_the_job_sighup_is_what_it_was(path: Path) -> None:
    before = signal.getsignal(signal.SIGHUP)
    with ConfigFile(path, lambda: load(path)):
        assert signal.getsignal(signal.SIGHUP) is not before
    assert signal.getsignal(signal.SIGHUP) is before


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_text("clusters: {"), lambda path: path.unlink()],
    ids=["broken", "gone"],
)
def test_one_that_cannot_be_is_told_once_and_is_over_when_it_is_mended(
    file: ConfigFile, path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    job = Job()
    spoil(path)
    assert looks(file, job, 5) == []
    assert file.error is not None
    assert str(path) in file.error
    assert [record.getMessage() for record in caplog.records] == [
        f"{file.error}; the configuration that was in force stays so, and the file is tried again in 30 s"
    ]

    path.write_text(GOOD.replace("prod", "mended"))
    assert looks(file, job, 5) == ["mended"]
    assert file.error is None


def test_what_the_job_refuses_is_an_error_of_the_file(file: ConfigFile, path: Path) -> None:
    def refuse(config: Config) -> Sequence[str]:
        raise UsageError("cluster prod: none of c1:9093 could be queried")

    path.write_text(GOOD + "# changed\n")
    for _ in range(3):
        file.look(refuse)
    assert file.error == "cluster prod: none of c1:9093 could be queried"


def test_one_that_is_refused_is_tried_again_by_itself_ever_more_rarely(
    file: ConfigFile, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    looked, tried = 0, list[int]()
    away = "cluster prod: none of c1:9093 could be queried"

    def refuse(_: Config) -> Sequence[str]:
        tried.append(looked)
        raise UsageError(away)

    path.write_text(GOOD + "# changed\n")
    while looked < 1_000:
        file.look(refuse)
        looked += 1
    assert [later - sooner for sooner, later in pairwise(tried)] == [30, 60, 120, 240, 300]
    assert len(caplog.records) == 1

    # What changes, and what is sent SIGHUP, does not wait for that, and the pauses begin anew.
    before = len(tried)
    os.kill(os.getpid(), signal.SIGHUP)
    while looked < 1_040:
        file.look(refuse)
        looked += 1
    assert [later - sooner for sooner, later in pairwise(tried[before:])] == [30]

    job = Job()
    assert looks(file, job, 300) == ["prod"]
    assert file.error is None
    assert looks(file, job, 1_000) == []


def test_what_needs_a_restart_is_refused_by_its_key() -> None:
    def config(**keys: object) -> Config:
        return checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], **keys}, "test")

    refuse_fixed(config(), config(thresholds={"no-leader": {"hold": 3}}))
    for key, value in (("checkpoint", "elsewhere"), ("master", "local[1]"), ("spark", {"a": "b"}), ("listen", "h:1")):
        with pytest.raises(UsageError, match=f"^{key} cannot change while the job runs: start it anew"):
            refuse_fixed(config(), config(**{key: value}))
