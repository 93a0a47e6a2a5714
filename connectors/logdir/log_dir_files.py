"""The files of one replica's metadata log: which of those in a folder count, and what their names say.

Names are Kafka's (`LogFileUtils`, `Snapshots`): a segment is named by its first offset, 20 digits and `.log`; a
snapshot by its end offset and epoch, 20 digits, a hyphen, 10 digits and `.checkpoint`. What Kafka is still writing
(`.part`) or about to delete (`.deleted`) does not count.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from connectors.errors import UsageError
from rules.model.identifiers import Epoch, Offset

PARTITION = "__cluster_metadata-0"
_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LISTINGS = 10
"""How often a folder is listed again because Kafka deleted a file of it meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One `.log` file, open."""

    name: str
    base_offset: Offset
    file: BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """One `.checkpoint` file, open."""

    name: str
    end_offset: Offset
    """The offset after the last record that it stands for."""
    epoch: Epoch
    file: BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFiles:
    """What a partition's folder held when it was listed, each in order of offsets."""

    segments: tuple[SegmentFile, ...]
    snapshots: tuple[SnapshotFile, ...]


def find_partition(folder: Path) -> Path:
    """The folder of the metadata log: the one that is given, or the one of this name in it.

    Raises:
        UsageError: there is none, or it cannot be listed.
    """
    for place in (folder / PARTITION, folder):
        try:
            names = [entry.name for entry in place.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as problem:
            raise UsageError(f"cannot read {place}: {(problem.strerror or 'unreadable').lower()}") from None
        if any(_SEGMENT.fullmatch(name) or _SNAPSHOT.fullmatch(name) for name in names):
            return place
    raise UsageError(
        f"no metadata log is in {folder}: name a controller's metadata.log.dir (or log.dirs), or the {PARTITION} in it"
    )


@contextmanager
def open_files(partition: Path) -> Iterator[LogDirFiles]:
    """Every file of the log, open: what a living Kafka deletes from now on can still be read.

    Raises:
        UsageError: one of them may not be read.
    """
    with ExitStack() as stack:
        yield _opened(partition, stack)


def checkpoint_name(end_offset: int, epoch: int) -> str:
    """What Kafka calls the snapshot of everything below this offset (`Snapshots.filenameFromSnapshotId`)."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def _opened(partition: Path, stack: ExitStack) -> LogDirFiles:
    for _ in range(_LISTINGS):
        segments: list[SegmentFile] = []
        snapshots: list[SnapshotFile] = []
        try:
            for path in sorted(partition.iterdir()):
                if named := _SEGMENT.fullmatch(path.name):
                    file = stack.enter_context(path.open("rb"))
                    segments.append(SegmentFile(name=path.name, base_offset=Offset(int(named[1])), file=file))
                elif named := _SNAPSHOT.fullmatch(path.name):
                    file = stack.enter_context(path.open("rb"))
                    end, epoch = Offset(int(named[1])), Epoch(int(named[2]))
                    snapshots.append(SnapshotFile(name=path.name, end_offset=end, epoch=epoch, file=file))
        except FileNotFoundError:
            continue
        except OSError as problem:
            raise UsageError(
                f"cannot read {problem.filename}: {(problem.strerror or 'unreadable').lower()}; "
                "read it as the user that Kafka runs as"
            ) from None
        return LogDirFiles(segments=tuple(segments), snapshots=tuple(snapshots))
    raise UsageError(f"the files of {partition} are replaced faster than they can be read: try again")
