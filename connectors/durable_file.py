"""An append, or a file replaced: on the disk when it returns, or as if it had not been tried."""

import os
from contextlib import suppress
from pathlib import Path


def append(descriptor: int, content: bytes, size_bytes: int) -> None:
    """Write `content` behind the file's `size_bytes` bytes and sync it. The file is open with O_APPEND.

    Raises:
        OSError: it could not be written whole; the file is cut back to what it was, if that is possible.
    """
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size_bytes)
        raise


def replace_file(path: Path, content: bytes) -> None:
    """Put `content` in the file's place: whoever reads it sees what was before or all of this. Readable by us alone.

    Raises:
        OSError: it could not be written; what was before stands.
    """
    os.close(replaced(path, content))


def replaced(path: Path, content: bytes) -> int:
    """The same, and the file's descriptor, open for appending.

    Raises:
        OSError: it could not be written; what was before stands.
    """
    unfinished = path.with_name(path.name + ".new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        append(descriptor, content, 0)
        unfinished.replace(path)
        sync_directory(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Make names created or renamed in the folder survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
