"""Small file systems of the mount namespace of a chaos run, which become full."""

import errno
import os
import subprocess
from pathlib import Path

_FILLING = "filling"
_CHUNK = b"\0" * 65_536


def mount(folder: Path, *, megabytes: int) -> Path:
    """Mounts an empty file system at a folder, which keeps its owner; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    owner = folder.stat()
    options = f"size={megabytes}m,uid={owner.st_uid},gid={owner.st_gid},mode={owner.st_mode & 0o777:o}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    return folder


def fill(disk: Path, name: str = _FILLING) -> None:
    """Leaves no space; what takes it is a file of this name."""
    file = os.open(disk / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        while True:
            os.write(file, _CHUNK)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(file)


def free(disk: Path) -> None:
    """Gives the space back."""
    (disk / _FILLING).unlink(missing_ok=True)
