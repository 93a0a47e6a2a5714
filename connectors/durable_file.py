"""Durable file writes: an append or a replacement is complete and synced when the call returns, or has no effect."""

import os
from contextlib import suppress
from pathlib import Path


def append(descriptor: int, content: bytes, size_bytes: int) -> None:
    """Appends `content` to a file of `size_bytes` bytes and syncs it. The file is open with O_APPEND.

    Raises:
        OSError: the content could not be written completely; the file is truncated to `size_bytes` if possible.
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
    """Replaces the file's content atomically: a reader sees the old or the new content. The file's mode is 0600.

    Raises:
        OSError: the content could not be written; the file is unchanged.
    """
    os.close(open_replaced(path, content))


def open_replaced(path: Path, content: bytes) -> int:
    """Replaces the file as `replace_file` does and returns its descriptor, open for appending.

    Raises:
        OSError: the content could not be written; the file is unchanged.
    """
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        append(descriptor, content, 0)
        temporary.replace(path)
        sync_directory(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Syncs a folder, so that created and renamed names survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
