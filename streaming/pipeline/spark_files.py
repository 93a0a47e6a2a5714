"""Spark's checkpoint as files: which batches it holds, and which files are damaged. Starts no Spark.

    metadata                        the query's id, written once
    offsets/N                       what batch N reads, written before it runs
    commits/N                       written after batch N has run
    state/0/P/V.changelog, V.zip    version V = N + 1 of the state in partition P: its changes, or a snapshot
    state/0/0/_metadata/schema      the schema of the state, written once
    pages/CLUSTER/HASH              large parts of a cluster's states, written by kraftwatch (`page_files`)

Spark writes each file completely and renames it, but does not sync it: a power failure leaves empty files. To start
again it reads the newest two offsets, the newest commit, and the state of the newest committed batch.
"""

import json
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from connectors.store.stored_json import parse_json

_LOG_VERSION = "v1"
_CHANGELOG_BLOCK = b"LZ4Block"
_BLOCK_HEADER_BYTES = 21
"""Of net.jpountz.lz4.LZ4BlockOutputStream: magic, token, compressed and original length, checksum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedSparkFile:
    """A file of the checkpoint that cannot be used."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path} is damaged ({self.reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEnd:
    """The offset of a batch: the rows below `sequence` of this journal are in it and the batches before it."""

    journal_id: str
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFiles:
    """Spark's checkpoint folder. Reads only."""

    folder: Path

    @property
    def offsets(self) -> Sequence[int]:
        """The numbers of the planned batches, ascending."""
        return _numbers(self.folder / "offsets")

    @property
    def commits(self) -> Sequence[int]:
        """The numbers of the committed batches, ascending."""
        return _numbers(self.folder / "commits")

    @property
    def has_state(self) -> bool:
        """Whether a batch was ever committed."""
        return bool(self.commits)

    @property
    def state(self) -> Path:
        """The folder of the state's first partition."""
        return self.state_of(0)

    def state_of(self, partition: int) -> Path:
        """The folder of a partition of the state."""
        return self.folder / "state" / "0" / str(partition)

    @property
    def partitions(self) -> int | None:
        """The number of partitions of the state after the newest committed batch; None if no batch was committed."""
        return self._partitions(self.commits[-1]) if self.commits else None

    @property
    def planned_partitions(self) -> int | None:
        """The number of partitions of the newest planned batch; None if no batch was planned."""
        return self._partitions(self.offsets[-1]) if self.offsets else None

    def _partitions(self, batch: int) -> int | None:
        lines = _log_lines(self.folder / "offsets" / str(batch))
        with suppress(ValueError, LookupError, TypeError):
            return int(parse_json(lines[1])["conf"]["spark.sql.shuffle.partitions"])
        return None

    def planned_end(self, batch: int) -> PlannedEnd | None:
        """Returns the offset of a batch; None if its file is missing or damaged."""
        lines = _log_lines(self.folder / "offsets" / str(batch))
        # An incomplete offset file has fewer lines than version, metadata and one line per source.
        with suppress(ValueError, LookupError, TypeError):
            parse_json(lines[1])
            planned = parse_json(lines[2])
            return PlannedEnd(journal_id=str(planned["journal"]), sequence=int(planned["sequence"]))
        return None

    def has_offset(self, batch: int) -> bool:
        """Whether the offset of a batch is readable: that of a journal, or those of a topic's partitions."""
        if self.planned_end(batch) is not None:
            return True
        lines = _log_lines(self.folder / "offsets" / str(batch))
        with suppress(ValueError, LookupError, AttributeError):
            parse_json(lines[1])
            return all(isinstance(partitions, dict) for partitions in parse_json(lines[2]).values())
        return False

    def newest_planned_end(self) -> PlannedEnd | None:
        """Returns the newest readable offset; None if there is none."""
        ends = (self.planned_end(batch) for batch in reversed(self.offsets))
        return next((end for end in ends if end is not None), None)

    def committed(self, batch: int) -> bool:
        """Whether the commit of a batch is readable."""
        lines = _log_lines(self.folder / "commits" / str(batch))
        with suppress(ValueError, LookupError):
            return lines[0] == _LOG_VERSION and isinstance(parse_json(lines[1]), dict)
        return False

    def damaged(self) -> Sequence[DamagedSparkFile]:
        """Returns the damaged files without which Spark cannot continue, as far as their form shows it."""
        return tuple(self._damaged())

    def _damaged(self) -> Iterator[DamagedSparkFile]:
        if not self.offsets and not self.commits:
            return
        yield from _unreadable_metadata(self.folder / "metadata")
        newest = self.offsets[-1] if self.offsets else 0
        for batch in range(max(newest - 1, 0), newest + 1):
            if not self.has_offset(batch):
                yield _damaged_file(self.folder / "offsets" / str(batch))
        if self.commits:
            commit = self.commits[-1]
            if not self.committed(commit):
                yield _damaged_file(self.folder / "commits" / str(commit))
            yield from self._damaged_state(version=commit + 1, partitions=self._partitions(commit) or 1)

    def _damaged_state(self, *, version: int, partitions: int) -> Iterator[DamagedSparkFile]:
        schema = self.state / "_metadata" / "schema"
        if schema.exists() and not _readable_schema(schema):
            yield _damaged_file(schema)
        if not any(self.state.glob("*.changelog")) and not any(self.state.glob("*.zip")):
            # Another state store, by configuration.
            return
        for partition in range(partitions):
            yield from _damaged_versions(self.state_of(partition), version)


def _numbers(folder: Path) -> Sequence[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())


def _log_lines(path: Path) -> Sequence[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ()


def _damaged_file(path: Path) -> DamagedSparkFile:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return DamagedSparkFile(path=path, reason="it does not exist")
    return DamagedSparkFile(path=path, reason="it is empty" if size == 0 else "it is incomplete or changed")


def _unreadable_metadata(path: Path) -> Iterator[DamagedSparkFile]:
    with suppress(OSError, ValueError, LookupError, TypeError):
        if str(parse_json(path.read_text(encoding="utf-8"))["id"]):
            return
    yield _damaged_file(path)


def _damaged_versions(state: Path, version: int) -> Iterator[DamagedSparkFile]:
    for each in range(version, 0, -1):
        if _whole_zip(state / f"{each}.zip"):
            return
        changelog = state / f"{each}.changelog"
        if not _whole_changelog(changelog):
            yield _damaged_file(changelog)
            return


def _readable_schema(path: Path) -> bool:
    """A version, then the schemas of key and value as JSON, each behind its length of four bytes and a counter."""
    content = path.read_bytes()
    at = content.find(b"{")
    with suppress(ValueError):
        if at < 0:
            return False
        decoder = json.JSONDecoder()
        text = content.decode("latin-1")
        for _ in range(2):
            schema, end = decoder.raw_decode(text, text.index("{", at))
            if schema.get("type") != "struct":
                return False
            at = end
        return True
    return False


def _whole_zip(path: Path) -> bool:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return archive.testzip() is None
    return False


def _whole_changelog(path: Path) -> bool:
    """Whether the file's blocks are complete; only Spark verifies their checksums."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    if not content.startswith(_CHANGELOG_BLOCK):
        # Another codec, by configuration.
        return bool(content)
    at = 0
    while content[at : at + len(_CHANGELOG_BLOCK)] == _CHANGELOG_BLOCK and at + _BLOCK_HEADER_BYTES <= len(content):
        compressed = int.from_bytes(content[at + 9 : at + 13], "little")
        original = int.from_bytes(content[at + 13 : at + 17], "little")
        at += _BLOCK_HEADER_BYTES + compressed
        if original == 0:
            return at == len(content)
    return False
