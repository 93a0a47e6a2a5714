"""Runs one command and kills it when the guard's standard input closes.

The owner holds the other end of that pipe. The kernel closes it when the owner ends for any reason, kill -9 included.

    python child_guard.py LOG COMMAND...  prints the pid; the output of the command goes to LOG

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


def main(arguments: list[str]) -> int:
    """Runs the command and returns its exit code as a shell does: 128 + N when signal N ended it."""
    log, *command = arguments
    with open(log, "ab") as output:  # noqa: PTH123 - pathlib would double the time this program takes to start
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # It is safe here, because this process has one thread when it forks.
            preexec_fn=_die_with_the_guard,
        )
    os.write(1, f"{child.pid}\n".encode())

    def kill_child(_number: int, _frame: FrameType | None) -> None:
        child.kill()

    signal.signal(signal.SIGTERM, kill_child)
    threading.Thread(target=_kill_when_stdin_closes, args=(child,), daemon=True).start()
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))
