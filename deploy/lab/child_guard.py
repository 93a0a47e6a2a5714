"""Runs one command and kills it when the guard's standard input closes.

The owner holds the other end of that pipe. The kernel closes it when the owner ends for any reason, kill -9 included.

    python child_guard.py supervised LOG COMMAND...  prints the pid, output to LOG; the command ends with the owner
    python child_guard.py detached LOG COMMAND...    prints the pid and exits: the command outlives the owner

The guard runs by path, isolated and without site-packages, so that it starts in about 30 ms: standard library only.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

PR_SET_PDEATHSIG = 1


def _die_with_the_guard() -> None:
    """The kernel kills the command when the guard itself is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _kill_when_stdin_closes(child: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 4096):
        pass
    child.kill()


def _spawn(mode: str, log: str, command: list[str]) -> "subprocess.Popen[bytes]":
    # A preexec_fn is safe here, because this process has one thread when it forks.
    before = None if mode == "detached" else _die_with_the_guard
    with open(log, "ab") as output:  # noqa: PTH123 - pathlib would double the time this program takes to start
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=before
        )


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit code as a shell does: 128 + N when signal N ended it."""
    mode, log, *command = arguments
    child = _spawn(mode, log, command)
    os.write(1, f"{child.pid}\n".encode())
    if mode == "detached":
        os._exit(0)

    def kill_child(_number: int, _frame: FrameType | None) -> None:
        child.kill()

    signal.signal(signal.SIGTERM, kill_child)
    threading.Thread(target=_kill_when_stdin_closes, args=(child,), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))
