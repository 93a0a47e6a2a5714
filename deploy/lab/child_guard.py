"""The leash: a program that runs one other program, which ends when the leash's standard input does.

The owner holds the other end of that pipe. Whatever ends the owner, kill -9 included, closes it.

    python child_guard.py held LOG COMMAND...      prints the pid, output to LOG; ends with the owner
    python child_guard.py inherit - COMMAND...     output is the leash's own; ends with the owner
    python child_guard.py detached LOG COMMAND...  prints the pid and leaves: the command outlives everybody

It runs by path, isolated and without site-packages, so that it starts in some 30 ms: standard library only.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from types import FrameType

PR_SET_PDEATHSIG = 1


def _die_with_the_leash() -> None:
    """On Linux, kill -9 of the leash itself takes its command along; elsewhere there is no such call."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _follow_stdin(child: "subprocess.Popen[bytes]") -> None:
    while os.read(0, 4096):
        pass
    child.kill()


def _spawn(mode: str, log: str, command: list[str]) -> "subprocess.Popen[bytes]":
    # A preexec_fn is safe here as nowhere else: this process has one thread when it forks.
    before = _die_with_the_leash if sys.platform == "linux" and mode != "detached" else None
    if mode == "inherit":
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=before)
    with open(log, "ab") as output:  # noqa: PTH123 - pathlib would double the time this program takes to start
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=before
        )


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit code as a shell does: 128 + N when signal N ended it."""
    mode, log, *command = arguments
    child = _spawn(mode, log, command)
    if mode != "inherit":
        os.write(1, f"{child.pid}\n".encode())
    if mode == "detached":
        os._exit(0)

    def end(_number: int, _frame: FrameType | None) -> None:
        child.kill()

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=_follow_stdin, args=(child,), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))
