"""What rescue leaves beside a log directory."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from tests.cli.rescue_apply import SNAPSHOT
from tests.unit.connectors.logdir.log_dirs import MOVED

LOG = "00000000000000000000.log"


OTHER = MOVED.replace("c1.new", "c1.other")


OPTIONS = ("--initial-controllers", MOVED, "--yes")


BACKUP = f".before-{SNAPSHOT.removesuffix('.checkpoint')}"


def copies(node: Path) -> Iterator[tuple[int, Path]]:
    """Yields 1, 2, … and a new copy of the node, alone in a folder, until the test breaks."""
    for number in count(1):
        copy = node.parent / f"try-{number}" / node.name
        shutil.copytree(node, copy)
        yield number, copy
