"""Starts real quorums for tests and always stops them; keeps their logs if a test failed."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import jars
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster
from tests.lab import Lab

MakeLab = Callable[..., Lab]
"""Takes the parameters of `Lab`, except the folder; returns a running lab."""


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Returns the folder of Kafka's jars; downloads them if they are not in the cache."""
    return jars.kafka_jars()


@pytest.fixture
def lab(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MakeLab]:
    """Yields a function that starts a quorum for one test, such as `lab(controllers=3, brokers=2)`."""
    yield from _labs(tmp_path_factory.mktemp("lab"), request.session)


@pytest.fixture(scope="module")
def shared_lab(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MakeLab]:
    """Yields a function that starts a quorum that the tests of one module share."""
    yield from _labs(tmp_path_factory.mktemp("shared-lab"), request.session)


@pytest.fixture(scope="module")
def monitor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredCluster]:
    """Monitors the quorum of a module: its fixture `lab` is a running one."""
    with monitor_cluster(lab, tmp_path_factory.mktemp("monitor")) as monitored:
        yield monitored


def _labs(folder: Path, session: pytest.Session) -> Iterator[MakeLab]:
    failed_before = session.testsfailed
    with ExitStack() as stack:

        def make(**options: Any) -> Lab:
            started = Lab(folder / f"lab-{len(list(folder.iterdir()))}", **options)
            return stack.enter_context(started)

        yield make
    if session.testsfailed == failed_before:
        shutil.rmtree(folder, ignore_errors=True)
