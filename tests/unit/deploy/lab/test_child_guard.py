"""The leash on ordinary programs; tests/kafka shows the same of a quorum."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.lab.child_process import Program, output_of, runs
from deploy.lab.lab_errors import LabError
from tests.eventually import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]

OWNER = """
import sys, time
from pathlib import Path
from deploy.lab.child_process import Program
program = Program(sys.argv[2:], log=Path(sys.argv[1]), mark="sleep", held=True)
print(program.pid, program._leash.pid, flush=True)
time.sleep(600)
"""


def started_by_another(log: Path) -> tuple["subprocess.Popen[str]", int, int]:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(log), *SLEEP], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid, leash = map(int, owner.stdout.readline().split())
    owner.stdout.close()
    return owner, pid, leash


def test_a_program_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    owner, pid, leash = started_by_another(tmp_path / "log")
    assert runs(pid, "sleep")
    owner.kill()
    owner.wait()

    eventually(lambda: not psutil.pid_exists(pid) and not psutil.pid_exists(leash), within_s=10)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's death")
def test_a_program_ends_when_the_leash_itself_is_killed(tmp_path: Path) -> None:
    owner, pid, leash = started_by_another(tmp_path / "log")
    os.kill(leash, signal.SIGKILL)

    eventually(lambda: not runs(pid, "sleep"), within_s=10)
    owner.kill()
    owner.wait()


def test_a_paused_program_is_alive_and_can_still_be_killed(tmp_path: Path) -> None:
    program = Program(SLEEP, log=tmp_path / "log", mark="sleep", held=True)
    program.signal(signal.SIGSTOP)
    eventually(lambda: psutil.Process(program.pid).status() == psutil.STATUS_STOPPED, within_s=10)
    assert program.alive

    program.kill()

    assert not program.alive
    assert not psutil.pid_exists(program.pid)
    program.kill()  # of what has ended already, without complaint


def test_what_a_program_prints_goes_to_its_log(tmp_path: Path) -> None:
    program = Program([sys.executable, "-c", "print('hello')"], log=tmp_path / "log", mark="hello", held=True)

    assert program.wait(60)
    assert (tmp_path / "log").read_text() == "hello\n"


def test_a_detached_program_stays_until_it_is_killed(tmp_path: Path) -> None:
    program = Program(SLEEP, log=tmp_path / "log", mark="time.sleep(600)", held=False)
    assert program.alive

    program.kill()

    assert not program.alive


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="could not start no-such-program"):
        Program(["no-such-program"], log=tmp_path / "log", mark="x", held=True)


def test_a_command_that_fails_says_how_with_its_last_words() -> None:
    with pytest.raises(LabError, match=r"^the tool failed with exit code 3:\nout of coffee$"):
        output_of([sys.executable, "-c", "print('out of coffee'); raise SystemExit(3)"], what="the tool", timeout_s=60)


def test_a_command_that_does_not_end_is_ended() -> None:
    with pytest.raises(LabError, match=r"^the tool did not end within 0.2 s$"):
        output_of(SLEEP, what="the tool", timeout_s=0.2)
