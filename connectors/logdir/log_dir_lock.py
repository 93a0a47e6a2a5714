"""The lock that a running Kafka holds on a log directory: `.lock` in the directory (Kafka's `FileLock`)."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from connectors.errors import UsageError

LOCK_FILE: Final = ".lock"


@contextmanager
def locked(folder: Path, *, create: bool) -> Iterator[None]:
    """Holds the lock of a log directory, as Kafka does while it runs: Kafka cannot start until it is released.

    Args:
        folder: the metadata.log.dir (or the first of log.dirs), not the partition's folder in it.
        create: whether to create the lock file if it is missing; without it, nobody holds a lock, and none is taken.

    Raises:
        UsageError: a Kafka process holds the lock, or the file cannot be opened.
    """
    path = folder / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o644)
    except FileNotFoundError:
        yield
        return
    except OSError as problem:
        reason = (problem.strerror or "unreadable").lower()
        raise UsageError(f"cannot open {path}: {reason}; run this as the user that Kafka runs as") from None
    try:
        try:
            # Java's FileChannel.tryLock takes the same POSIX lock.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{folder} is locked: a Kafka process uses it (lock file {path}); stop this node first"
            ) from None
        yield
    finally:
        os.close(descriptor)
