"""One quorum and one job that the scenes of a module share: each scene leaves the quorum healthy."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.eventually import eventually

HOLDS = {
    "stale-voter-endpoint": 6.0,
    "observer-could-be-voter": 6.0,
    "voter-disk-replaced": 5.0,
    "monitor-blind": 5.0,
    "no-leader": 15.0,
}
"""Low, so that a scene takes seconds. No-leader's is three times its own: on a starved machine, that is an election."""


def holding(*rules: str) -> dict[str, float]:
    """The thresholds of a module that waits for these rules; all others keep their own, which no stall outlasts."""
    return {f"{rule}.hold": HOLDS[rule] for rule in rules} | {f"{rule}.clear": 3.0 for rule in rules}


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kraftwatch-test-", ignore_cleanup_errors=True) as name:
        yield Path(name)
        # A Java that is still ending would make its folders again after they were removed.
        eventually(lambda: nobody_in(Path(name)), within_s=60)


def every_voter_fetches(lab: Lab) -> None:
    """Wait until each voter has what is appended from now on: a leader remembers offsets of voters that are down."""
    now = lab.await_state(lambda state: True, what="a leader").high_watermark
    lab.await_state(
        lambda state: all(voter.log_end_offset > now for voter in state.voters), what=f"every voter beyond offset {now}"
    )


def nobody_in(folder: Path) -> None:
    """No process works in a folder: those of a job all do."""
    for process in psutil.process_iter(["cwd", "cmdline"]):
        cwd = process.info["cwd"]
        assert not cwd or not Path(cwd).is_relative_to(folder), process.info["cmdline"]


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", properties={"broker.session.timeout.ms": "3000"}) as lab:
        yield lab


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    """The thresholds that the job runs with: a module that waits for alerts has its own."""
    return {}


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab, settings: dict[str, float]) -> Iterator[JobProcess]:
    job = JobProcess(folder=folder / "watch", name="test", bootstrap=lab.bootstrap, settings=settings)
    job.start()
    with contextlib.ExitStack() as stack:
        stack.callback(job.stop)
        yield job
