"""The lock: one process at a time writes the journal. The kernel releases the flock when its holder ends."""

import fcntl
import os
import time
from pathlib import Path

from connectors.errors import JournalInUseError

_RETRY_INTERVAL_S = 0.05


def acquire(path: Path, timeout_s: float) -> int:
    """Takes the lock, retrying for `timeout_s` seconds.

    Returns:
        The file descriptor that holds the lock until it is closed.

    Raises:
        JournalInUseError: another process still holds the lock.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + timeout_s
    while not _try_lock(descriptor):
        if time.monotonic() >= deadline:
            holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise JournalInUseError(
                f"The journal {path.parent} is still in use after {timeout_s:g} s by process {holder or '?'}: "
                f"stop that process, or use another checkpoint folder."
            )
        time.sleep(_RETRY_INTERVAL_S)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
