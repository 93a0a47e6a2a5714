"""The job of a demo or a test that fails or dies is not left behind."""

import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from streaming.demo.job_process import JobProcess, JobProcessError
from tests.eventually import eventually

SLEEPS = "import time; time.sleep(600)"
OWNER = f"""
import sys
from pathlib import Path

from streaming.demo.job_process import JobProcess


class Waiting(JobProcess):
    def command(self):
        return [sys.executable, "-c", {SLEEPS!r}]


Waiting(folder=Path(sys.argv[1]), bootstrap=()).start()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent died")
def test_the_job_ends_when_its_watcher_is_killed(tmp_path: Path) -> None:
    owner = psutil.Popen([sys.executable, "-c", OWNER, str(tmp_path)])
    try:
        job = eventually(lambda: sleeping_child(owner), within_s=60)
    finally:
        owner.kill()
        owner.wait()

    eventually(lambda: ended(job), within_s=60)


class NeverReady(JobProcess):
    """A job that ends no batch."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", SLEEPS]


def test_a_job_that_does_not_come_up_is_ended(tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}

    with pytest.raises(JobProcessError, match="first batch"):
        NeverReady(folder=tmp_path, bootstrap=(), start_s=0.5).start()

    assert {child.pid for child in psutil.Process().children()} <= before


def sleeping_child(owner: psutil.Process) -> psutil.Process:
    for child in owner.children():
        with suppress(psutil.Error):  # the process that tested setpriv has ended meanwhile
            # Before it, the child is a copy of its owner, or setpriv, which may not have asked for the signal yet.
            if child.cmdline() == [sys.executable, "-c", SLEEPS]:
                return child
    raise AssertionError("the job has not started")


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
