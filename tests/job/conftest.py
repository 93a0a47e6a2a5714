"""One quorum and one job that the scenes of a module share: each scene leaves the quorum healthy."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.quorum import Lab
from streaming.demo.watcher import Watcher

SETTINGS = {
    "stale-voter-endpoint.hold": 6.0,
    "observer-could-be-voter.hold": 6.0,
    "voter-disk-replaced.hold": 5.0,
    "partition-stuck-recovering.hold": 5.0,
    "no-leader.hold": 5.0,
    "monitor-blind.hold": 5.0,
} | {
    f"{rule}.clear": 3.0
    for rule in (
        "stale-voter-endpoint",
        "observer-could-be-voter",
        "voter-disk-replaced",
        "partition-stuck-recovering",
        "no-leader",
        "monitor-blind",
    )
}
"""Low, so that a scene takes seconds; an election still fits into no-leader's hold."""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kraftwatch-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", properties={"broker.session.timeout.ms": "3000"}) as lab:
        yield lab


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    """The thresholds that the job runs with; a module may have others."""
    return SETTINGS


@pytest.fixture(scope="module")
def watcher(folder: Path, lab: Lab, settings: dict[str, float]) -> Iterator[Watcher]:
    watcher = Watcher(folder=folder / "watch", name="test", bootstrap=lab.bootstrap, settings=settings)
    watcher.start()
    with contextlib.ExitStack() as stack:
        stack.callback(watcher.stop)
        yield watcher
