"""The files beside the log that Kafka reads when a node starts, and those with which its start fails.

Each check does what Kafka's own reader does with the content. A controller of 4.4.0 was started with each state of each
file; all that ended did so before they joined the quorum, with exit code 1. What is not here keeps no node from its
start, in whatever state it is: the indexes and snapshots of producers, which are written again, `.kafka_cleanshutdown`,
the offset checkpoints of a log directory, and temporary files (`.tmp`, `.part`, `.deleted`).
"""

import errno
import os
import re
import stat
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.errors import UndecodableError
from connectors.logdir.log_dir_files import (
    META_PROPERTIES,
    PARTITION,
    QUORUM_STATE,
    open_regular_file,
    properties_of,
)
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.observations.log_event import FeatureLevelSet
from connectors.store.stored_json import parse_json

ENDS: Final = "Kafka ends at its start"
_UNKNOWN: Final = "whether Kafka starts with it is unknown"
_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Kafka's id of the metadata topic (Uuid.METADATA_TOPIC_ID)."""
_LARGEST_INT32: Final = 2**31 - 1
_LARGEST_INT64: Final = 2**63 - 1
_UUID_BYTES: Final = 16
_RESERVED_IDS: Final = 100
"""`DirectoryId.reserved`: the ids below this number."""
_OF_SEGMENTS: Final = ("*.log", "*.index", "*.timeindex")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProblem:
    """What keeps a node from its start."""

    what: str
    """The file, or record, and what is wrong with it, as a clause."""
    effect: str
    """What Kafka does with it, as a clause."""
    step: str
    """What to do about it, as a sentence without its end."""
    ends: bool = True
    """Whether a controller surely ends at its start; otherwise it may start."""

    def __str__(self) -> str:
        """Returns `quorum-state is empty: Kafka ends at its start`."""
        return f"{self.what}: {self.effect}"

    @property
    def with_step(self) -> str:
        """The problem, and what to do about it: two sentences without their end."""
        return f"{self}. {self.step[0].upper()}{self.step[1:]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFile:
    """One file that Kafka reads when a node starts."""

    name: str
    in_partition: bool
    """Whether it is in the folder of the metadata log; otherwise it is in the log directory."""
    fault: Callable[[bytes], str | None] | None
    """Returns what in the content Kafka does not accept, as a clause; None if it accepts it.

    None for a file whose content does not matter: it is not opened. Whoever closes a file, even one that was only read,
    gives up every POSIX lock that the process holds on it, so Kafka could start while a rescue writes.
    """
    step: str
    required: bool = False
    """Whether a node ends without it."""


def _quorum_state(content: bytes) -> str | None:
    """`FileQuorumStateStore.readStateFromFile` reads the first line; `QuorumStateDataJsonConverter` the fields."""
    if not content:
        return "is empty"
    try:
        state = parse_json(content.split(b"\n", 1)[0])
    except ValueError:
        return "is damaged: it is no JSON"
    version = state.get("data_version") if isinstance(state, dict) else None
    if not isinstance(version, int):
        return "is damaged: it has no data_version"
    if version not in _STATE_FIELDS:
        return f"has version {version}, and 0 and 1 are known"
    if missing := next((name for name in _STATE_FIELDS[version] if name not in state), None):
        return f"is damaged: it has no {missing}, which version {version} needs"
    numbers = [state[name] for name in ("leaderId", "leaderEpoch", "votedId")]
    if not all(type(number) is int and abs(number) <= _LARGEST_INT32 for number in numbers):
        return "is damaged: an epoch or node id in it is no number"
    return "has an epoch after which there is none" if state["leaderEpoch"] == _LARGEST_INT32 else None


_STATE_FIELDS: Final[Mapping[int, tuple[str, ...]]] = {
    0: ("clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters"),
    1: ("leaderId", "leaderEpoch", "votedId", "votedDirectoryId"),
}
"""The fields without which each version is not read."""


def _epochs(content: bytes) -> str | None:
    """`CheckpointFile.read` with entries of `LeaderEpochCheckpointFile`, whose order is not checked."""
    lines = _lines(content)
    if lines is None:
        return "is damaged: it is no text"
    if len(lines) < 2:
        # An empty file, and a version alone, are files without entries.
        return None if not lines or lines[0] == "0" else f"has version {lines[0][:20]!r}, and 0 is known"
    version, count, *entries = lines
    if version != "0":
        return f"has version {version[:20]!r}, and 0 is known"
    for entry in entries:
        numbers = [_number(part) for part in _parts(r"\s+", entry)]
        if len(numbers) != 2 or None in numbers:
            return f"is damaged: it has the line {entry[:40]!r}"
        if not all(number is not None and number >= 0 for number in numbers):
            return f"is damaged: it has the negative epoch or offset {entry[:40]!r}"
    if _number(count) != len(entries):
        return f"is damaged: it names {count[:20]} entries and has {len(entries)}"
    return None


def _partition_metadata(content: bytes) -> str | None:
    """`PartitionMetadataReadBuffer.read`: two lines, `version: 0` and `topic_id: UUID`; a newer version is read too."""
    lines = _lines(content)
    if lines is None:
        return "is damaged: it is no text"
    if not lines:
        return "is empty"
    version, topic = (_parts(r":\s+", line) for line in (*lines[:2], "")[:2])
    number = _number(version[1]) if len(version) == 2 else None
    if number is None or len(topic) != 2:
        return "is damaged: a version and a topic id are not in its first two lines"
    if number < 0:
        return f"has version {number}"
    return None if topic[1] == _TOPIC_ID else f"names topic id {topic[1][:40]!r}, which is not the metadata log's"


def _meta_properties(content: bytes) -> str | None:
    """`MetaProperties.Builder`, and the checks of `MetaPropertiesEnsemble`."""
    values = properties_of(content)
    version = values.get("version", "0").strip()
    if _number(version) not in (0, 1):
        return f"has version {version[:20]!r}, and 0 and 1 are known"
    if _number(version) == 0:
        return None if _number(values.get("broker.id", "")) is not None else "names no node.id"
    for name in ("cluster.id", "node.id"):
        if name not in values:
            return f"has no {name}"
    if _number(values["node.id"]) is None:
        return "has a node.id that is no number"
    directory = values.get("directory.id")
    if directory is None:
        # Kafka makes one up: the node starts, and is no voter.
        return None
    id_ = _uuid(directory)
    if id_ is None:
        return "has a directory.id that is no UUID"
    return "has a directory.id that Kafka reserves" if int.from_bytes(id_) < _RESERVED_IDS else None


def _bootstrap(content: bytes) -> str | None:
    """`BootstrapDirectory.readFromBinaryFile`: the records must set metadata.version."""
    batches = [item for item in scan(content) if isinstance(item, RecordBatch)]
    try:
        events = decode_snapshot_piece(content[: batches[-1].end] if batches else b"", end_offset=0, epoch=0).events()
        known = any(isinstance(event, FeatureLevelSet) and event.name == "metadata.version" for event in events)
    except UndecodableError:
        known = False
    return None if known else "is damaged: it does not set metadata.version"


START_FILES: Final = (
    StartFile(
        name=META_PROPERTIES,
        in_partition=False,
        fault=_meta_properties,
        step="write version, cluster.id, node.id and directory.id into it as they were (a backup, the other nodes, and "
        "for the directory id the voters in the log); do not format the disk again",
        required=True,
    ),
    StartFile(
        name="bootstrap.checkpoint",
        in_partition=False,
        fault=_bootstrap,
        step="move it away: only a node without a metadata log needs it",
    ),
    StartFile(
        name=".lock",
        in_partition=False,
        fault=None,
        step="move it away: Kafka writes it again",
    ),
    StartFile(
        name=QUORUM_STATE,
        in_partition=True,
        fault=_quorum_state,
        step="delete it while every controller is stopped, or when the others have a leader: without it the node does "
        "not know for whom it voted, and could vote a second time in that epoch",
    ),
    StartFile(
        name="leader-epoch-checkpoint",
        in_partition=True,
        fault=_epochs,
        step="delete it: Kafka writes it again from the log",
    ),
    StartFile(
        name="partition.metadata",
        in_partition=True,
        fault=_partition_metadata,
        step="delete it: Kafka writes it again",
    ),
)
"""In the order in which Kafka reads them."""


def start_problems(partition: Path) -> tuple[StartProblem, ...]:
    """Returns what in the files beside the log keeps the node from its start."""
    log_dir = partition.parent if partition.name == PARTITION else partition
    files = ((file, (partition if file.in_partition else log_dir) / file.name) for file in START_FILES)
    return (*_problems(files), *_no_files(partition))


def _problems(files: Iterable[tuple[StartFile, Path]]) -> Iterable[StartProblem]:
    for file, path in files:
        effect = ENDS
        try:
            fault = _fault(file, path)
        except FileNotFoundError:
            fault = "is missing" if file.required else None
        except OSError as problem:
            unreadable = isinstance(problem, PermissionError)
            fault = f"cannot be read: {(problem.strerror or 'unreadable').lower()}" if unreadable else "is no file"
            effect = _UNKNOWN if unreadable else ENDS
        if fault is not None:
            step = "read it as the user that Kafka runs as" if effect is _UNKNOWN else file.step
            yield StartProblem(what=f"{file.name} {fault}", effect=effect, step=step, ends=effect is ENDS)


def _fault(file: StartFile, path: Path) -> str | None:
    """Returns what Kafka does not accept, as a clause; raises the OSError with which the file cannot be opened."""
    if file.fault is not None:
        with open_regular_file(path) as opened:
            return file.fault(opened.read())
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return None


def _no_files(partition: Path) -> Iterable[StartProblem]:
    """Yields the segments and indexes that are folders: Kafka writes an index again only if it is a file."""
    for path in sorted(path for pattern in _OF_SEGMENTS for path in partition.glob(pattern)):
        if path.is_dir():
            yield StartProblem(what=f"{path.name} is no file", effect=ENDS, step="move it away: Kafka writes it again")


def _lines(content: bytes) -> list[str] | None:
    """Returns the lines as Java's BufferedReader does; None if it is not UTF-8."""
    try:
        lines = re.split(r"\r\n|\r|\n", content.decode())
    except UnicodeDecodeError:
        return None
    return lines if lines[-1] else lines[:-1]


def _parts(separator: str, line: str) -> list[str]:
    """Splits as Java's Pattern does: without empty parts at the end."""
    parts = re.split(separator, line)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _number(text: str) -> int | None:
    """Returns the number that Java's parser reads; None if it reads none."""
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text) else None
    return number if number is not None and abs(number) <= _LARGEST_INT64 else None


def _uuid(text: str) -> bytes | None:
    try:
        id_ = urlsafe_b64decode(text + "==")
    except ValueError:
        return None
    return id_ if len(id_) == _UUID_BYTES else None
