"""What a process wrote, read while it goes on writing."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def written(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file in a folder with what is in it; a file that is taken away meanwhile holds nothing any more."""
    for place, _, names in os.walk(folder):
        for path in sorted(Path(place) / name for name in names):
            with suppress(FileNotFoundError):
                yield path, path.read_bytes()
