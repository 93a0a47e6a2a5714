"""A program started by the lab, which can not outlive its owner unless it is meant to."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.lab.lab_errors import LabError
from deploy.lab.wait_until import until

LEASH = (sys.executable, "-I", "-S", str(Path(__file__).with_name("child_guard.py")))
"""The interpreter and the program that hold a command (`deploy.lab.child_guard`)."""

NO_FURTHER_LIMIT_S = 60.0
"""How long a process may take to be gone after SIGKILL."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A process of this machine, as it is now: its command line, and the letter for its state (T: stopped)."""

    pid: int
    state: str
    command: str


def processes() -> Iterator[Seen]:
    """Every living process that can be seen; zombies do not live."""
    if sys.platform == "linux":  # where `ps` may be missing
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
                words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                if state not in {"Z", "X"}:
                    yield Seen(int(folder.name), state, b" ".join(words).decode(errors="replace"))
        return
    shown = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,stat=,command="], capture_output=True, text=True, check=True)
    for line in shown.stdout.splitlines():
        pid, state, command = line.split(maxsplit=2)
        if not state.startswith("Z"):
            yield Seen(int(pid), state[0], command)


def runs(pid: int, mark: str) -> bool:
    """Whether this pid is alive and its command line holds `mark`: pids are given again to others."""
    # The line is empty for an instant after exec: Linux closes the caller's pipe before it sets the line.
    return any(one.pid == pid and (mark in one.command or not one.command) for one in processes())


class Program:
    """A long-running command, its output in a log file.

    `mark` is a part of its command line that no other process has. A held program ends with its owner
    (this Python process; forked copies of it count as the owner as long as they live). A detached one stays.
    """

    def __init__(self, command: Sequence[str], *, log: Path, mark: str, held: bool) -> None:
        self._mark = mark
        self._leash = subprocess.Popen(
            [*LEASH, "held" if held else "detached", str(log), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._leash.stdout is not None
        told = self._leash.stdout.readline()
        self._leash.stdout.close()
        if not told:
            self._close()
            raise LabError(f"could not start {command[0]}: is it on the PATH?")
        self.pid = int(told)
        self._held = held
        if not held:
            self._close()

    @property
    def alive(self) -> bool:
        """Running or paused; False from the moment it has ended."""
        return self._leash.poll() is None if self._held else runs(self.pid, self._mark)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal; nothing if it has ended already."""
        if self.alive:
            with suppress(ProcessLookupError):  # ended just now
                os.kill(self.pid, number)

    def pause(self) -> None:
        """SIGSTOP, and returns when every thread of it stands still."""
        self.signal(signal.SIGSTOP)
        until(
            lambda: any(one.pid == self.pid and one.state == "T" for one in processes()),
            timeout_s=NO_FURTHER_LIMIT_S,
            what=f"process {self.pid} to stand still",
        )

    def wait(self, timeout_s: float) -> bool:
        """Whether it ended within `timeout_s`."""
        try:
            until(lambda: not self.alive, timeout_s=timeout_s, what="the end of a process")
        except LabError:
            return False
        self._close()
        return True

    def kill(self) -> None:
        """SIGKILL, and its end.

        Raises:
            LabError: it is still there after a minute (a process in uninterruptible sleep).
        """
        self.signal(signal.SIGKILL)
        if not self.wait(NO_FURTHER_LIMIT_S):
            raise LabError(f"process {self.pid} did not end on SIGKILL")

    def _close(self) -> None:
        if self._leash.stdin is not None:
            self._leash.stdin.close()
        self._leash.wait(NO_FURTHER_LIMIT_S)


@contextmanager
def leashed(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """A short command on the leash, its output (both streams) in `stdout`; killed on leaving the block."""
    far_end, near_end = os.pipe()
    try:
        process = subprocess.Popen(
            [*LEASH, "inherit", "-", *command],
            stdin=far_end,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except BaseException:
        os.close(near_end)
        raise
    finally:
        os.close(far_end)
    try:
        yield process
    finally:
        os.close(near_end)
        process.wait(NO_FURTHER_LIMIT_S)
        assert process.stdout is not None
        process.stdout.close()


def output_of(command: Sequence[str], *, what: str, timeout_s: float) -> str:
    """Runs a command to its end and returns what it printed.

    Raises:
        LabError: it failed (the sentence ends with its last lines) or took longer than `timeout_s`.
    """
    with leashed(command) as process:
        try:
            printed, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise LabError(f"{what} did not end within {timeout_s:g} s") from None
        if process.returncode != 0:
            said = [line for line in printed.strip().splitlines() if not line.startswith("\tat ")]
            last = "\n".join(said[-12:])
            raise LabError(f"{what} failed with exit code {process.returncode}:\n{last}")
        return printed
