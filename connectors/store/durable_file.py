"""Files of a job: what is written is complete and synced when the call returns, and their owner alone can read them."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path

FOLDER_MODE = 0o700
_OTHERS = 0o077
_LOCK_RETRY_S = 0.05
_LEAST_FREE = 1 << 20
"""With less free space nothing starts: a log or a database cannot be written."""


class Synced(Enum):
    """What a replacement syncs to the disk before it returns."""

    NOTHING = auto()
    """Readers see the old or the new content; after a power failure the file may be empty."""
    FILE = auto()
    """After a power failure the file has the old or the new content."""
    FILE_AND_FOLDER = auto()
    """After a power failure the file has the new content."""


def append(descriptor: int, content: bytes, size_bytes: int) -> None:
    """Appends `content` to a file of `size_bytes` bytes and syncs it. The file is open with O_APPEND.

    Raises OSError if the content could not be written completely; the file is truncated to `size_bytes` if possible.
    """
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size_bytes)
        raise


def full_disk(folder: Path) -> str | None:
    """Returns that the disk of a folder is full, as a sentence's part; None if it has room, or cannot be asked."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return f"the disk of {folder} is full" if found.f_bavail * found.f_frsize < _LEAST_FREE else None


def replace_file(path: Path, content: bytes, *, synced: Synced = Synced.FILE_AND_FOLDER) -> None:
    """Replaces the file's content atomically: a reader sees the old or the new content.

    The content is first written to a file with the suffix `.new` in the same folder. Only its owner can read it. The
    file need not exist. Raises OSError if the content could not be written; the file is unchanged.
    """
    temporary = path.with_name(path.name + ".new")
    descriptor = create_file(temporary)
    try:
        write_all(descriptor, content)
        if synced is not Synced.NOTHING:
            os.fsync(descriptor)
        temporary.replace(path)
        if synced is Synced.FILE_AND_FOLDER:
            sync_path(path.parent)
    finally:
        os.close(descriptor)


def create_file(path: str | Path, *, folder: int | None = None) -> int:
    """Creates an empty file that its owner alone can read and write; returns its descriptor.

    A file or link of this name is removed before: it may have other permissions, or lead to another file.

    Args:
        folder: descriptor of the folder that a relative path begins in; None: the working directory.
    """
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=folder)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)


def write_file(path: str | Path, content: bytes, *, folder: int | None = None) -> None:
    """Creates a file with this content and syncs it, as `create_file` does; its name is not synced."""
    descriptor = create_file(path, folder=folder)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_path(path: str | os.PathLike[str]) -> None:
    """Syncs a file, or a folder, so that created and renamed names survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int, wait_s: float = 0.0) -> bool:
    """Locks an open file until it is closed, also by the end of the process.

    Returns:
        False if another process still holds the lock after so many seconds.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOCK_RETRY_S)
        else:
            return True


def write_all(descriptor: int, content: bytes) -> None:
    """Writes all of `content`; raises OSError if the disk takes a part only."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


@contextmanager
def private_files() -> Iterator[None]:
    """Sets the umask: this process and those that it starts create files with mode 0600 and folders with 0700."""
    before = os.umask(_OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def restrict_folder(folder: Path) -> None:
    """Denies other users access to a folder and so to everything in it; a folder of another user stays unchanged."""
    if is_open_to_others(folder):
        with suppress(PermissionError):
            folder.chmod(FOLDER_MODE)


def is_open_to_others(folder: Path) -> bool:
    """Whether the group or other users have any permission on a folder."""
    return bool(folder.stat().st_mode & _OTHERS)
