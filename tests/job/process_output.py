"""The files of a running process, read while it writes them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def files_in(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yields each file in a folder and its content; deleted ones and sockets are left out."""
    for parent, _, names in os.walk(folder):
        for path in sorted(Path(parent) / name for name in names):
            with suppress(FileNotFoundError):
                if not path.is_socket():
                    yield path, path.read_bytes()
