"""The files of one replica's metadata log: finds and opens its segments and snapshots.

Names are Kafka's (`LogFileUtils`, `Snapshots`): a segment is named by its first offset, 20 digits and `.log`; a
snapshot by its end offset and epoch, 20 digits, a hyphen, 10 digits and `.checkpoint`. Files that Kafka is still
writing (`.part`) or about to delete (`.deleted`) are ignored.
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
_LISTING_ATTEMPTS = 10
"""How often a folder is listed because Kafka deleted one of its files during the listing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """One open `.log` file."""

    name: str
    base_offset: Offset
    file: BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """One open `.checkpoint` file."""

    name: str
    end_offset: Offset
    """The offset after the last record that the snapshot contains."""
    epoch: Epoch
    file: BinaryIO


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFiles:
    """The segments and snapshots of a partition's folder, each in order of offsets."""

    segments: tuple[SegmentFile, ...]
    snapshots: tuple[SnapshotFile, ...]


def find_partition(folder: Path) -> Path:
    """Returns the folder of the metadata log: `folder` itself or the partition's folder in it.

    Raises:
        UsageError: there is no such folder, or it cannot be listed.
    """
    for candidate in (folder / PARTITION, folder):
        try:
            names = [entry.name for entry in candidate.iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as problem:
            raise UsageError(f"cannot read {candidate}: {(problem.strerror or 'unreadable').lower()}") from None
        if any(is_log_file(name) for name in names):
            return candidate
    raise UsageError(
        f"no metadata log is in {folder}: name a controller's metadata.log.dir (or log.dirs), or the {PARTITION} in it"
    )


def is_log_file(name: str) -> bool:
    """Whether a file of this name is a segment or a snapshot."""
    return bool(_SEGMENT.fullmatch(name) or _SNAPSHOT.fullmatch(name))


@contextmanager
def open_files(partition: Path) -> Iterator[LogDirFiles]:
    """Opens every file of the log. A file that a running Kafka deletes from now on can still be read.

    Raises:
        UsageError: a file cannot be read.
    """
    with ExitStack() as stack:
        yield _open_files(partition, stack)


def checkpoint_name(end_offset: int, epoch: int) -> str:
    """Returns Kafka's name of the snapshot of all records below this offset (`Snapshots.filenameFromSnapshotId`)."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def _open_files(partition: Path, stack: ExitStack) -> LogDirFiles:
    for _ in range(_LISTING_ATTEMPTS):
        segments: list[SegmentFile] = []
        snapshots: list[SnapshotFile] = []
        try:
            for path in sorted(partition.iterdir()):
                if match := _SEGMENT.fullmatch(path.name):
                    file = stack.enter_context(path.open("rb"))
                    segments.append(SegmentFile(name=path.name, base_offset=Offset(int(match[1])), file=file))
                elif match := _SNAPSHOT.fullmatch(path.name):
                    file = stack.enter_context(path.open("rb"))
                    end, epoch = Offset(int(match[1])), Epoch(int(match[2]))
                    snapshots.append(SnapshotFile(name=path.name, end_offset=end, epoch=epoch, file=file))
        except FileNotFoundError:
            continue
        except OSError as problem:
            raise UsageError(
                f"cannot read {problem.filename}: {(problem.strerror or 'unreadable').lower()}; "
                "read it as the user that Kafka runs as"
            ) from None
        return LogDirFiles(segments=tuple(segments), snapshots=tuple(snapshots))
    raise UsageError(
        f"the files of {partition} were replaced by Kafka on each of {_LISTING_ATTEMPTS} attempts: try again"
    )
