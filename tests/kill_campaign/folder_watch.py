"""FolderWatch: waits for a file to be created or renamed in a folder, by inotify (Linux)."""

import ctypes
import os
import re
import select
import struct
import time
from pathlib import Path

_CREATE, _MOVED_TO = 0x100, 0x80
_EVENT = struct.Struct("iIII")


class FolderWatch:
    """Watches one folder; a context manager."""

    def __init__(self, folder: Path) -> None:
        """`folder` exists.

        Raises:
            OSError: it cannot be watched.
        """
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, bytes(folder), _CREATE | _MOVED_TO) < 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))

    def __enter__(self) -> "FolderWatch":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def wait_for(self, pattern: str, *, count: int, within_s: float) -> str | None:
        """Returns the name of the so manyth new file that matches the regular expression; None after the timeout."""
        deadline = time.monotonic() + within_s
        while (left_s := deadline - time.monotonic()) > 0:
            if not select.select([self._descriptor], [], [], left_s)[0]:
                return None
            content = os.read(self._descriptor, 65536)
            while content:
                *_, length = _EVENT.unpack_from(content)
                name = content[_EVENT.size : _EVENT.size + length].rstrip(b"\0").decode()
                content = content[_EVENT.size + length :]
                if re.fullmatch(pattern, name):
                    count -= 1
                    if count <= 0:
                        return name
        return None
