"""The logs of Spark's checkpoint as files: which batches it holds, and which files are damaged. Starts no Spark.

    metadata                        the query's id, written once
    offsets/N                       what batch N reads, written before it runs
    commits/N                       written after batch N has run
    state/0/P/V.changelog, V.zip    version V = N + 1 of the state in partition P: only Spark reads them. In format 2,
                                    V_ID.changelog; the batch's commit has the id
    pages/CLUSTER/HASH              large parts of a cluster's states, written by kraftwatch (`page_files`)

Spark writes each file completely and renames it, but does not sync it: a power failure leaves empty files. To start
again it reads the newest two offsets, the newest commit, and the state of the newest committed batch.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from connectors.store.stored_json import parse_json

_COMMIT_VERSIONS = {"v1": 1, "v2": 2}
"""Of a commit, and so of the state that it commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEnd:
    """The offset of a batch: the rows below `sequence` of this journal are in it and the batches before it."""

    journal_id: str
    sequence: int


class Folder(Protocol):
    """A folder of any file system; names in it are separated by slashes."""

    @property
    def place(self) -> str:
        """The folder's path or URI."""

    def names(self, folder: str) -> Sequence[str]:
        """Returns the names in a folder of it; none if it does not exist."""

    def text(self, file: str) -> str:
        """Returns the content of a file; raises FileNotFoundError, or ValueError if it is no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalFolder(Folder):
    """A folder on this machine."""

    path: Path

    @property
    def place(self) -> str:
        """The folder's path."""
        return str(self.path)

    def names(self, folder: str) -> Sequence[str]:
        """As `Folder.names`."""
        return [path.name for path in (self.path / folder).glob("*")]

    def text(self, file: str) -> str:
        """As `Folder.text`."""
        return (self.path / file).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFiles:
    """Spark's checkpoint folder. Reads only."""

    folder: Folder

    @property
    def offsets(self) -> Sequence[int]:
        """The numbers of the planned batches, ascending."""
        return self._numbers("offsets")

    @property
    def commits(self) -> Sequence[int]:
        """The numbers of the committed batches, ascending."""
        return self._numbers("commits")

    def _numbers(self, folder: str) -> Sequence[int]:
        return sorted(int(name) for name in self.folder.names(folder) if name.isdecimal())

    @property
    def has_state(self) -> bool:
        """Whether a batch was ever committed."""
        return bool(self.commits)

    @property
    def partitions(self) -> int | None:
        """The number of partitions of the newest committed batch, or of a first one that was only planned.

        Spark takes it from there, and not from its settings. None if no batch was planned.
        """
        batches = self.commits or self.offsets
        metadata: Any = self._offset(batches[-1])[0] if batches else None
        with suppress(ValueError, LookupError, TypeError):
            return int(metadata["conf"]["spark.sql.shuffle.partitions"])
        return None

    def _offset(self, batch: int) -> tuple[Any, Any]:
        """Returns the metadata and the source's offset of a batch; None for both if the file is missing or damaged."""
        with suppress(OSError, ValueError):
            _, metadata, offset = self.folder.text(f"offsets/{batch}").splitlines()
            return parse_json(metadata), parse_json(offset)
        return None, None

    def planned_end(self, batch: int) -> PlannedEnd | None:
        """Returns the offset of a batch; None if its file is missing or damaged."""
        _, planned = self._offset(batch)
        with suppress(ValueError, LookupError, TypeError):
            return PlannedEnd(journal_id=str(planned["journal"]), sequence=int(planned["sequence"]))
        return None

    def planned_at_ms(self, batch: int) -> int | None:
        """Returns when a batch was planned; None if its file is missing or damaged."""
        metadata, _ = self._offset(batch)
        with suppress(ValueError, LookupError, TypeError):
            return int(metadata["batchTimestampMs"])
        return None

    def _has_offset(self, batch: int) -> bool:
        """Whether the offset of a batch is readable: that of a journal, or those of a topic's partitions."""
        _, offset = self._offset(batch)
        of_topic = isinstance(offset, dict) and all(isinstance(partitions, dict) for partitions in offset.values())
        return of_topic or self.planned_end(batch) is not None

    def newest_planned_end(self) -> PlannedEnd | None:
        """Returns the newest readable offset; None if there is none."""
        ends = (self.planned_end(batch) for batch in reversed(self.offsets))
        return next((end for end in ends if end is not None), None)

    @property
    def state_format(self) -> int | None:
        """The format of the state's files, which Spark's settings must name again; None without a readable commit."""
        return self._committed(self.commits[-1]) if self.commits else None

    def _committed(self, batch: int) -> int | None:
        """Returns the version of a commit; None if its file is missing or damaged."""
        with suppress(OSError, ValueError):
            version, content = self.folder.text(f"commits/{batch}").splitlines()
            return _COMMIT_VERSIONS.get(version) if isinstance(parse_json(content), dict) else None
        return None

    def damaged(self) -> Sequence[str]:
        """Returns the damaged files of the logs without which Spark cannot continue, each with the reason."""
        if not self.offsets and not self.commits:
            return ()
        # A partial copy may lack offsets of committed batches: Spark would run the batch before again, and then find
        # the next one's commit, which it takes for another query's.
        newest = max(*self.offsets[-1:], *self.commits[-1:], 0)
        readable = {"metadata": self._has_id()}
        for batch in range(max(newest - 1, 0), newest + 1):
            readable[f"offsets/{batch}"] = self._has_offset(batch)
        for batch in self.commits[-1:]:
            readable[f"commits/{batch}"] = self._committed(batch) is not None
        return [
            f"{self.folder.place}/{file} is damaged ({self._damage(file)})" for file, ok in readable.items() if not ok
        ]

    def _has_id(self) -> bool:
        with suppress(OSError, ValueError, LookupError, TypeError):
            return bool(parse_json(self.folder.text("metadata"))["id"])
        return False

    def _damage(self, file: str) -> str:
        try:
            return "it is incomplete or changed" if self.folder.text(file) else "it is empty"
        except FileNotFoundError:
            return "it does not exist"
        except (OSError, ValueError):
            return "it is incomplete or changed"
