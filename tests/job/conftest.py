"""A quorum and a job that the scenarios of a module share: each scenario leaves the quorum healthy."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from streaming.demo.job_process import JobProcess
from tests.eventually import eventually
from tests.job.configured_job import section
from tests.job.relay_process import RelayProcess
from tests.lab import Lab
from tests.postgres_server import PostgresServer
from tests.sinks.server import HttpDouble, serving

HOLD_S, NO_LEADER_HOLD_S = 6.0, 15.0
"""Short, so that a scenario takes seconds. That of no-leader is three times its default, because an election takes long
on a busy machine."""


def short_thresholds(*rules: str) -> dict[str, float]:
    """Returns thresholds for a module that waits for these rules. Other rules keep their defaults: no stall of the
    machine lasts that long."""
    holds = {f"{rule}.hold": NO_LEADER_HOLD_S if rule == "no-leader" else HOLD_S for rule in rules}
    return holds | {"alerts.clear": 3.0}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kraftwatch-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)
        # A Java process that is ending would create its folders again after their removal.
        eventually(lambda: assert_no_process_in(Path(name)), within_s=60)


def await_fetches_of_all_voters(lab: Lab) -> None:
    """Waits until each voter fetched beyond the present high watermark: a leader keeps offsets of stopped voters."""
    now = lab.await_state(lambda state: True, what="a leader").high_watermark
    lab.await_state(
        lambda state: all(voter.log_end_offset > now for voter in state.voters), what=f"every voter beyond offset {now}"
    )


def assert_no_process_in(folder: Path) -> None:
    """Asserts that no process has its working directory in this folder; all processes of a job do."""
    for process in psutil.process_iter(["cwd", "cmdline"]):
        cwd = process.info["cwd"]
        assert not cwd or not Path(cwd).is_relative_to(folder), process.info["cmdline"]


@pytest.fixture(scope="module")
def lab(folder: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The monitored quorum, with the options `LAB` of the module."""
    options = getattr(request.module, "LAB", {"properties": {"broker.session.timeout.ms": "3000"}})
    with Lab(folder / "lab", **options) as lab:
        yield lab


@pytest.fixture(scope="module")
def topic_lab(folder: Path) -> Iterator[Lab]:
    """The cluster with the topic of a relay: the monitored one loses its leader."""
    with Lab(folder / "topic-lab", controllers=0, combined=1, brokers=0) as lab:
        yield lab


@pytest.fixture
def relay(folder: Path, lab: Lab, topic_lab: Lab, request: pytest.FixtureRequest) -> Iterator[RelayProcess]:
    """A running relay with a topic of its own."""
    name = request.node.name.translate({ord("["): "-", ord("]"): None})
    relay = RelayProcess(folder / name, topic_lab, topic=name, clusters=[section("test", lab)])
    relay.start("--only", "test")
    relay.wait_for_rows(1)
    yield relay
    relay.stop()


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def webhook() -> Iterator[HttpDouble]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    """The job's thresholds: a module that waits for alerts overrides this fixture."""
    return {}


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab, settings: dict[str, float]) -> Iterator[JobProcess]:
    with JobProcess(folder=folder / "job", name="test", bootstrap=lab.bootstrap, settings=settings) as job:
        yield job
