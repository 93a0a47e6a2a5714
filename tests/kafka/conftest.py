"""Real quorums for tests: started on demand, ended for certain, their logs kept when a test failed."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import jars
from deploy.lab.lab import Lab

MakeLab = Callable[..., Lab]
"""Takes what `Lab` takes, except the folder; returns it running."""


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Kafka's jars, fetched now if they never were."""
    return jars.kafka_jars()


@pytest.fixture
def lab(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MakeLab]:
    """`lab(controllers=3, brokers=2, ...)`: a quorum for one test."""
    yield from _labs(tmp_path_factory.mktemp("lab"), request.session)


@pytest.fixture(scope="module")
def shared_lab(
    kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[MakeLab]:
    """`shared_lab(...)`: a quorum for a module's own module-scoped fixture to share between its tests."""
    yield from _labs(tmp_path_factory.mktemp("shared-lab"), request.session)


def _labs(folder: Path, session: pytest.Session) -> Iterator[MakeLab]:
    failed_before = session.testsfailed
    with ExitStack() as stack:

        def make(**options: Any) -> Lab:
            made = Lab(folder / f"lab-{len(list(folder.iterdir()))}", **options)
            return stack.enter_context(made)

        yield make
    if session.testsfailed == failed_before:
        shutil.rmtree(folder, ignore_errors=True)
