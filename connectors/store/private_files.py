"""The permissions of what a process creates: files and folders for their owner alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_MODE = 0o700
_OTHERS = 0o077


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
