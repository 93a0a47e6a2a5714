"""The logs of Spark's checkpoint as files: which batches it holds, and which files are damaged. Starts no Spark.

    metadata                        the query's id, written once
    offsets/N                       what batch N reads, written before it runs
    commits/N                       written after batch N has run
    state/0/P/V.changelog, V.zip    version V = N + 1 of the state in partition P: only Spark reads them
    pages/CLUSTER/HASH              large parts of a cluster's states, written by kraftwatch (`page_files`)

Spark writes each file completely and renames it, but does not sync it: a power failure leaves empty files. To start
again it reads the newest two offsets, the newest commit, and the state of the newest committed batch.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.store.stored_json import parse_json

_LOG_VERSION = "v1"


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
    def partitions(self) -> int | None:
        """The number of partitions of the state after the newest committed batch; None if no batch was committed."""
        metadata: Any = self._offset(self.commits[-1])[0] if self.commits else None
        with suppress(ValueError, LookupError, TypeError):
            return int(metadata["conf"]["spark.sql.shuffle.partitions"])
        return None

    def _offset(self, batch: int) -> tuple[Any, Any]:
        """Returns the metadata and the source's offset of a batch; None for both if the file is missing or damaged."""
        with suppress(OSError, ValueError):
            _, metadata, offset = (self.folder / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
            return parse_json(metadata), parse_json(offset)
        return None, None

    def planned_end(self, batch: int) -> PlannedEnd | None:
        """Returns the offset of a batch; None if its file is missing or damaged."""
        _, planned = self._offset(batch)
        with suppress(ValueError, LookupError, TypeError):
            return PlannedEnd(journal_id=str(planned["journal"]), sequence=int(planned["sequence"]))
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

    def _is_committed(self, batch: int) -> bool:
        with suppress(OSError, ValueError):
            version, content = (self.folder / "commits" / str(batch)).read_text(encoding="utf-8").splitlines()
            return version == _LOG_VERSION and isinstance(parse_json(content), dict)
        return False

    def damaged(self) -> Sequence[str]:
        """Returns the damaged files of the logs without which Spark cannot continue, each with the reason."""
        if not self.offsets and not self.commits:
            return ()
        newest = self.offsets[-1] if self.offsets else 0
        readable = {self.folder / "metadata": self._has_id()}
        for batch in range(max(newest - 1, 0), newest + 1):
            readable[self.folder / "offsets" / str(batch)] = self._has_offset(batch)
        for batch in self.commits[-1:]:
            readable[self.folder / "commits" / str(batch)] = self._is_committed(batch)
        return [f"{path} is damaged ({_damage(path)})" for path, intact in readable.items() if not intact]

    def _has_id(self) -> bool:
        with suppress(OSError, ValueError, LookupError, TypeError):
            return bool(parse_json((self.folder / "metadata").read_text(encoding="utf-8"))["id"])
        return False


def _numbers(folder: Path) -> Sequence[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())


def _damage(path: Path) -> str:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "it does not exist"
    return "it is empty" if size == 0 else "it is incomplete or changed"
