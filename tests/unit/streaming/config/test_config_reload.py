"""The configuration file of a running job: when it is read, and what happens with an invalid one."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from connectors.errors import UsageError
from streaming.config import Config, checked, load
from streaming.config.reload import ConfigFile, refuse_fixed

GOOD = 'clusters: [{name: prod, bootstrap: ["c1:9093"]}]\n'


class Job:
    """Accepts each configuration and records its clusters."""

    def __init__(self) -> None:
        self.applied: list[str] = []

    def change(self, config: Config) -> Sequence[str]:
        self.applied.append(",".join(section.name for section in config.clusters))
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


def applied_in(file: ConfigFile, job: Job, times: int) -> list[str]:
    """The configurations that were applied in so many polls of the file."""
    before = len(job.applied)
    for _ in range(times):
        file.poll(job.change)
    return job.applied[before:]


def test_a_change_is_applied_once_after_it_was_stable_for_one_poll(file: ConfigFile, path: Path) -> None:
    job = Job()
    assert applied_in(file, job, 5) == []
    path.write_text(GOOD.replace("prod", "half-written"))
    assert applied_in(file, job, 1) == []
    path.write_text(GOOD.replace("prod", "production"))
    assert applied_in(file, job, 1) == []
    assert applied_in(file, job, 5) == ["production"]


def test_sighup_reads_the_file_at_once_even_unchanged(file: ConfigFile) -> None:
    job = Job()
    os.kill(os.getpid(), signal.SIGHUP)
    assert applied_in(file, job, 3) == ["prod"]


def test_a_check_that_fails_refuses_the_file(path: Path) -> None:
    """A library that reads a value may raise anything."""

    def read() -> Config:
        raise TypeError("'NoneType' object is not subscriptable")

    job = Job()
    with ConfigFile(path, read) as file:
        os.kill(os.getpid(), signal.SIGHUP)
        assert applied_in(file, job, 3) == []
        assert file.error is not None
        assert file.error.startswith(f"{path} cannot be checked: TypeError in ")


@pytest.mark.parametrize(
    "spoil",
    [lambda path: path.write_text("clusters: {"), lambda path: path.unlink()],
    ids=["not YAML", "deleted"],
)
def test_an_invalid_file_is_logged_once_until_it_is_fixed(
    file: ConfigFile, path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    job = Job()
    spoil(path)
    assert applied_in(file, job, 5) == []
    assert file.error is not None
    assert str(path) in file.error
    assert [record.getMessage() for record in caplog.records] == [
        f"{file.error}; the old configuration stays in effect, retrying every 60 s"
    ]

    path.write_text(GOOD.replace("prod", "fixed"))
    assert applied_in(file, job, 5) == ["fixed"]
    assert file.error is None


def test_a_file_that_the_job_refuses_is_read_again_every_minute_or_at_sighup(
    file: ConfigFile, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    polls, attempts = 0, list[int]()
    reason = "cluster prod: none of c1:9093 could be queried"

    def refuse(_: Config) -> Sequence[str]:
        attempts.append(polls)
        raise UsageError(reason)

    path.write_text(GOOD + "# changed\n")
    for polls in range(150):
        if polls == 100:
            os.kill(os.getpid(), signal.SIGHUP)
        file.poll(refuse)
    assert attempts == [1, 61, 100]
    assert file.error == reason
    assert len(caplog.records) == 1

    job = Job()
    assert applied_in(file, job, 60) == ["prod"]
    assert file.error is None
    assert applied_in(file, job, 100) == []


def test_a_key_that_needs_a_restart_is_refused_by_name() -> None:
    def config(**keys: object) -> Config:
        return checked({"clusters": [{"name": "prod", "bootstrap": ["c1:9093"]}], **keys}, "test")

    refuse_fixed(config(), config(thresholds={"no-leader": {"hold": 3}}))
    for key, value in (("checkpoint", "elsewhere"), ("master", "local[1]"), ("spark", {"a": "b"}), ("listen", "h:1")):
        with pytest.raises(UsageError, match=f"^{key} cannot change while the job runs: restart the job"):
            refuse_fixed(config(), config(**{key: value}))
