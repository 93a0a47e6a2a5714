"""A task in a fork of this process."""

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import pytest

SURVIVED, KILLED, NOT_REPLACED, ERROR = 0, 1, 8, 9
"""Exit codes of a fork; ERROR: its task raised an exception. Between them are those of pytest."""


@dataclass(frozen=True, kw_only=True)
class Fork:
    """A running child process.

    Attributes:
        pid: its process id.
        output: the read end of a pipe with what it writes.
    """

    pid: int
    output: int

    def ended(self) -> tuple[int, str]:
        """Waits for the end; returns the exit code (negative: the signal) and what was written."""
        with os.fdopen(self.output) as output:
            written = output.read()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]), written


def fork(task: Callable[[int], NoReturn], *, seconds: int) -> Fork:
    """Starts a task, which gets the write end of a pipe and ends the process itself.

    Args:
        task: what the child process does.
        seconds: the time after which SIGALRM ends it.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return Fork(pid=pid, output=read)
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        signal.alarm(seconds)
        task(write)
    except BaseException:  # noqa: BLE001 - whatever it is, the child ends here
        os.write(write, traceback.format_exc()[-4_000:].encode())
        os._exit(ERROR)


@dataclass(frozen=True)
class FirstFailure:
    """A pytest plugin that ends the process when a test fails, and writes which one."""

    output: int

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self.output, f"{report.nodeid}\n{report.longreprtext[-4_000:]}".encode())
            os._exit(KILLED)
