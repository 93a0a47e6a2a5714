"""The files of one replica's log directory: segments, snapshots, `meta.properties` and `quorum-state`.

Names are Kafka's (`LogFileUtils`, `Snapshots`): a segment is named by its first offset, 20 digits and `.log`; a
snapshot by its end offset and epoch, 20 digits, a hyphen, 10 digits and `.checkpoint`. Files that Kafka is still
writing (`.part`) or about to delete (`.deleted`) are ignored.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from connectors.errors import UsageError, os_errors
from connectors.store.stored_json import parse_json
from rules.model.identifiers import DirectoryId, Epoch, NodeId, Offset, ReplicaKey

PARTITION = "__cluster_metadata-0"
_SEGMENT = re.compile(r"(\d{20})\.log")
_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_LISTING_ATTEMPTS = 10
"""How often a folder is listed because Kafka deleted one of its files during the listing."""
META_PROPERTIES = "meta.properties"
_LINE_END = re.compile(r"\r\n|\r|\n")
_PAIR = re.compile(r"((?:\\.|[^\\\s=:])+)\s*[=:]?\s*(.*)")
_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
QUORUM_STATE = "quorum-state"
_NO_NODE = -1
_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero UUID: the vote names no directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """One open file."""

    name: str
    file: BinaryIO

    def read(self, start: int = 0) -> bytes:
        """Returns the content from this position on."""
        self.file.seek(start)
        return self.file.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile(LogFile):
    """One open `.log` file."""

    base_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile(LogFile):
    """One open `.checkpoint` file."""

    end_offset: Offset
    """The offset after the last record that the snapshot contains."""
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFiles:
    """The segments of a partition's folder in order of offsets, and its snapshots from the oldest to the newest.

    Of two snapshots, the one of the later epoch is the newer one, whatever its offset (Kafka's `OffsetAndEpoch`).
    """

    segments: tuple[SegmentFile, ...]
    snapshots: tuple[SnapshotFile, ...]


def find_partition(folder: Path) -> Path:
    """Returns the folder of the metadata log: `folder` itself or the partition's folder in it.

    Raises:
        UsageError: there is no such folder, or it cannot be listed.
    """
    for candidate in (folder / PARTITION, folder):
        with os_errors(f"cannot read {candidate}"):
            try:
                names = [entry.name for entry in candidate.iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                continue
        if any(is_log_file(name) for name in names):
            # `.` and `..` have neither the name nor the parent of the folder.
            named = candidate.parent.name and ".." not in candidate.parts
            return candidate if named else candidate.resolve()
    raise UsageError(
        f"no metadata log is in {folder}: name a controller's metadata.log.dir (or log.dirs), or the {PARTITION} in it"
    )


def is_empty_log_dir(folder: Path) -> bool:
    """Returns whether this is the log directory of a node that has written no metadata log yet.

    Its disk is new, or it was formatted and never started. A folder with other things and without a meta.properties is
    no log directory; `find_partition` then says so.

    Raises:
        UsageError: the folder cannot be listed.
    """
    with os_errors(f"cannot read {folder}"):
        try:
            names = {entry.name for entry in folder.iterdir()} - {"lost+found"}
            partition = {entry.name for entry in (folder / PARTITION).iterdir()} if PARTITION in names else set()
        except (FileNotFoundError, NotADirectoryError):
            return False
    if any(is_log_file(name) for name in names | partition):
        return False
    return not names or bool(names & {META_PROPERTIES, PARTITION, QUORUM_STATE}) or folder.name == PARTITION


def is_log_file(name: str) -> bool:
    """Whether a file of this name is a segment or a snapshot."""
    return bool(_SEGMENT.fullmatch(name) or _SNAPSHOT.fullmatch(name))


@contextmanager
def open_files(partition: Path, folder: int | None = None) -> Iterator[LogDirFiles]:
    """Opens every file of the log. A file that a running Kafka deletes from now on can still be read.

    Args:
        folder: a descriptor of the partition's folder, which is then read whatever the path leads to; None: the path.

    Raises:
        UsageError: a file cannot be read.
    """
    with ExitStack() as stack:
        try:
            if folder is None:
                folder = os.open(partition, os.O_RDONLY | os.O_DIRECTORY)
                stack.callback(os.close, folder)
            yield _open_files(partition, folder, stack)
        except OSError as problem:
            where = partition / problem.filename if isinstance(problem.filename, str) else partition
            advice = "; read it as the user that Kafka runs as" if isinstance(problem, PermissionError) else ""
            reason = (problem.strerror or "unreadable").lower()
            raise UsageError(f"cannot read {where}: {reason}{advice}") from None


def checkpoint_name(end_offset: int, epoch: int) -> str:
    """Returns Kafka's name of the snapshot of all records below this offset (`Snapshots.filenameFromSnapshotId`)."""
    return f"{end_offset:020d}-{epoch:010d}.checkpoint"


def _open_files(partition: Path, folder: int, stack: ExitStack) -> LogDirFiles:
    for _ in range(_LISTING_ATTEMPTS):
        segments: list[SegmentFile] = []
        snapshots: list[SnapshotFile] = []
        try:
            for name in file_names(folder):
                if match := _SEGMENT.fullmatch(name):
                    file = stack.enter_context(open_regular_file(name, folder=folder))
                    segments.append(SegmentFile(name=name, base_offset=Offset(int(match[1])), file=file))
                elif match := _SNAPSHOT.fullmatch(name):
                    file = stack.enter_context(open_regular_file(name, folder=folder))
                    end, epoch = Offset(int(match[1])), Epoch(int(match[2]))
                    snapshots.append(SnapshotFile(name=name, end_offset=end, epoch=epoch, file=file))
        except FileNotFoundError:
            continue
        snapshots.sort(key=lambda one: (one.epoch, one.end_offset))
        return LogDirFiles(segments=tuple(segments), snapshots=tuple(snapshots))
    raise UsageError(
        f"the files of {partition} were replaced by Kafka on each of {_LISTING_ATTEMPTS} attempts: try again"
    )


def file_names(folder: int) -> list[str]:
    """Returns the names in an open folder, in order. Raises OSError."""
    return sorted(os.listdir(folder))


def open_regular_file(path: str | Path, *, folder: int | None = None) -> BufferedReader:
    """Opens a file for reading, through a link too; does not wait for a writer of a pipe.

    Args:
        folder: descriptor of the folder that a relative path begins in; None: the working directory.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def _content(path: Path) -> bytes:
    with open_regular_file(path) as file:
        return file.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of `meta.properties`, written when the directory was formatted; None for missing properties.

    Kafka's `MetaProperties`: version 0 (`broker.id`) and version 1 (`node.id`, and `directory.id` since 3.7).
    """

    version: int | None
    """Version of the file format."""
    cluster_id: str | None
    """Cluster id."""
    node_id: NodeId | None
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id; none before Kafka 3.7."""

    @property
    def key(self) -> ReplicaKey | None:
        """The replica's key; None if the file names no node."""
        return None if self.node_id is None else ReplicaKey(id=self.node_id, directory_id=self.directory_id)


def read_meta_properties(partition: Path) -> MetaProperties | None:
    """Reads the `meta.properties` of the partition's log directory; None if the file cannot be read."""
    folder = partition.parent if partition.name == PARTITION else partition
    try:
        properties = properties_of(_content(folder / META_PROPERTIES))
    except OSError:
        return None
    directory = properties.get("directory.id")
    node = _property_number(properties.get("node.id", properties.get("broker.id")))
    return MetaProperties(
        version=_property_number(properties.get("version")),
        cluster_id=properties.get("cluster.id"),
        node_id=None if node is None else NodeId(node),
        directory_id=None if directory is None else DirectoryId(directory),
    )


def properties_of(content: bytes, encoding: str = "latin-1") -> dict[str, str]:
    """Returns the keys and values of a Java properties file (`Properties.load`), without white space behind values.

    Kafka reads its own files as Latin-1, and what its FileConfigProvider names as UTF-8.
    """
    return dict(pair for line in _lines(content.decode(encoding)) if (pair := _property(line)))


def _lines(text: str) -> Iterator[str]:
    """Yields the lines: one that ends with a backslash goes on in the next."""
    begun = ""
    for part in _LINE_END.split(text):
        line = part.lstrip(" \t\f")
        if not begun and line.startswith(("#", "!")):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    yield begun


def _property(line: str) -> tuple[str, str] | None:
    """Returns key and value of one line of a Java properties file; None for an empty one."""
    found = _PAIR.fullmatch(line)
    return None if found is None else (_unescaped(found[1]), _unescaped(found[2].rstrip()))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda one: _character(one[1]), text)


def _character(escape: str) -> str:
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _CONTROL.get(escape, escape)


def _property_number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d{1,10}", text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The last election that this replica knows, written before it votes and when it learns of a leader.

    Kafka's `FileQuorumStateStore`: JSON, `data_version` 0 (before kraft.version 1: it lists a static quorum's voters)
    or 1 (KIP-853: a vote names a directory, and the voters are in the log). A node writes version 0 until it has read
    in the log that the quorum is dynamic.
    """

    version: int
    """Version of the file format."""
    leader_epoch: Epoch
    """The newest leader epoch that this replica knows."""
    leader_id: NodeId | None
    """The leader of that epoch; None if this replica does not know it."""
    voted: ReplicaKey | None
    """The candidate it voted for in that epoch; None if it did not vote (or follows a leader)."""
    static_voters: tuple[NodeId, ...]
    """Version 0 only: the voters of the node's configuration when the file was written."""


def read_election_state(partition: Path) -> ElectionState | str:
    """Returns the election state of this replica, or the reason why it is unknown as a sentence."""
    try:
        return _election_state(parse_json(_content(partition / QUORUM_STATE)))
    except FileNotFoundError:
        return f"there is no {QUORUM_STATE}: this node never took part in a quorum, or the file was not copied"
    except OSError as problem:
        return f"{QUORUM_STATE} cannot be read: {(problem.strerror or 'unreadable').lower()}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{QUORUM_STATE} is damaged: it is not what Kafka writes"


def _election_state(content: dict[str, Any]) -> ElectionState | str:
    version = int(content["data_version"])
    if version not in (0, 1):
        return f"{QUORUM_STATE} has version {version}, which no known Kafka writes"
    epoch, leader, voted = int(content["leaderEpoch"]), int(content["leaderId"]), int(content["votedId"])
    if min(epoch, leader, voted) < -1:
        return f"{QUORUM_STATE} is damaged: it has a negative epoch or node id"
    directory = content.get("votedDirectoryId", _NO_DIRECTORY)
    return ElectionState(
        version=version,
        leader_epoch=Epoch(epoch),
        leader_id=None if leader == _NO_NODE else NodeId(leader),
        voted=None
        if voted == _NO_NODE
        else ReplicaKey(id=NodeId(voted), directory_id=None if directory == _NO_DIRECTORY else DirectoryId(directory)),
        static_voters=tuple(NodeId(int(one["voterId"])) for one in content.get("currentVoters") or ()),
    )
