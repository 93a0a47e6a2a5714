"""Child processes of the lab. A supervised one never outlives its owner; a detached one does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from deploy.lab import LabError

T = TypeVar("T")

POLL_INTERVAL_S = 0.1


def wait_until(poll: Callable[[], T | None], *, timeout_s: float, what: str) -> T:
    """Calls `poll` every 0.1 s until it returns a result, and returns the result.

    Args:
        poll: returns the result, or None or False while there is none yet.
        what: names the result in the error message, such as `a leader among the controllers`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = poll()
        if result is not None and result is not False:
            return result
        if time.monotonic() >= deadline:
            raise LabError(f"timed out after {timeout_s:g} s waiting for {what}")
        time.sleep(POLL_INTERVAL_S)


CHILD_GUARD = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child_guard.py")))
"""The interpreter and the program that supervise a command (`deploy.lab.child_guard`)."""

KILL_TIMEOUT_S = 60.0
"""How long a process may take to end after SIGKILL."""


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A running process of this machine: pid, state letter (T: stopped) and command line."""

    pid: int
    state: str
    command: str


def processes() -> Iterator[ProcessInfo]:
    """Yields every visible process of Linux except zombies."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            if state not in {"Z", "X"}:
                yield ProcessInfo(int(folder.name), state, b" ".join(words).decode(errors="replace"))


class ChildProcess:
    """A long-running command that writes its output to a log file.

    A supervised process ends with its owner (this Python process; forked copies of it count as the owner as long as
    they live), because it is the child of a guard. A detached one keeps running.
    """

    def __init__(self, command: Sequence[str], *, log: Path, supervised: bool) -> None:
        if not supervised:
            with log.open("ab") as output:
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self.pid = self._child.pid
            return
        self._child = subprocess.Popen(
            [*CHILD_GUARD, str(log), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._child.stdout is not None
        pid_line = self._child.stdout.readline()
        self._child.stdout.close()
        if not pid_line:
            self.wait(KILL_TIMEOUT_S)
            raise LabError(f"could not start {command[0]}: is it on the PATH?")
        self.pid = int(pid_line)

    @property
    def alive(self) -> bool:
        """True while it runs or is paused; False as soon as it has ended."""
        return not self.wait(0)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; does nothing if the process has ended."""
        if self.alive:
            with suppress(ProcessLookupError):  # ended a moment ago
                os.kill(self.pid, number)

    def pause(self) -> None:
        """Sends SIGSTOP and returns when the process is stopped."""
        self.signal(signal.SIGSTOP)
        wait_until(
            lambda: any(process.pid == self.pid and process.state == "T" for process in processes()),
            timeout_s=KILL_TIMEOUT_S,
            what=f"process {self.pid} to stop",
        )

    def wait(self, timeout_s: float) -> bool:
        """Returns whether the process ended within `timeout_s`."""
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        if self._child.stdin is not None:
            self._child.stdin.close()
        return True

    def kill(self) -> None:
        """Sends SIGKILL and returns when the process has ended."""
        self.signal(signal.SIGKILL)
        if not self.wait(KILL_TIMEOUT_S):
            raise LabError(f"process {self.pid} did not end on SIGKILL")


def command_output(command: Sequence[str], *, what: str, timeout_s: float) -> str:
    """Runs a command to its end and returns its output."""
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{what} did not end within {timeout_s:g} s") from None
    if ran.returncode != 0:
        lines = [line for line in ran.stdout.strip().splitlines() if not line.startswith("\tat ")]
        raise LabError(f"{what} failed with exit code {ran.returncode}:\n" + "\n".join(lines[-12:]))
    return ran.stdout
