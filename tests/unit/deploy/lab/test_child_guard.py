"""Supervision of the programs that the lab starts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.lab import LabError
from deploy.lab.child_process import ChildProcess, command_output, processes
from tests.eventually import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

OWNER = """
import sys, time
from pathlib import Path
from deploy.lab.child_process import ChildProcess
process = ChildProcess(sys.argv[2:], log=Path(sys.argv[1]), supervised=True)
print(process.pid, process._child.pid, flush=True)
time.sleep(600)
"""


def start_owner(log: Path) -> tuple["subprocess.Popen[str]", int, int]:
    """Starts a process that owns a child process; returns it, the child's pid and the guard's pid."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(log), *SLEEP], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, guard = map(int, owner.stdout.readline().split())
    owner.stdout.close()
    return owner, pid, guard


def runs(pid: int) -> bool:
    return any(one.pid == pid for one in processes())


def test_child_process_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner, pid, guard = start_owner(tmp_path / "log")
    assert runs(pid)
    owner.kill()
    owner.wait()

    eventually(lambda: not runs(pid) and not runs(guard), within_s=10)


def test_child_process_ends_when_the_guard_is_killed(tmp_path: Path) -> None:
    owner, pid, guard = start_owner(tmp_path / "log")
    os.kill(guard, signal.SIGKILL)

    eventually(lambda: not runs(pid), within_s=10)
    owner.kill()
    owner.wait()


@pytest.mark.parametrize("supervised", [True, False])
def test_paused_child_process_is_alive_and_can_be_killed(tmp_path: Path, supervised: bool) -> None:
    process = ChildProcess(SLEEP, log=tmp_path / "log", supervised=supervised)
    process.signal(signal.SIGSTOP)
    eventually(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED, within_s=10)
    assert process.alive

    process.kill()

    assert not process.alive
    assert not runs(process.pid)
    process.kill()  # does nothing: the process has already ended


def test_unknown_program_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="could not start no-such-program"):
        ChildProcess(["no-such-program"], log=tmp_path / "log", supervised=True)


def test_error_of_a_failed_command_has_the_exit_code_and_last_lines() -> None:
    with pytest.raises(LabError, match=r"^the tool failed with exit code 3:\nout of coffee$"):
        command_output(
            [sys.executable, "-c", "print('out of coffee'); raise SystemExit(3)"], what="the tool", timeout_s=60
        )


def test_command_is_killed_after_the_timeout() -> None:
    with pytest.raises(LabError, match=r"^the tool did not end within 0.2 s$"):
        command_output(SLEEP, what="the tool", timeout_s=0.2)
