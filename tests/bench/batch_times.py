"""When a running job published rows, and when each of its micro-batches passed each step: read from its checkpoint.

The job is not changed for the measurement. A file's time of modification has the resolution of the kernel's clock tick
(1 to 10 ms); the published position is polled every 2 ms.
"""

import json
import os
import threading
import time
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from connectors.journal import position_file
from connectors.journal.reader import PUBLISHED
from streaming.pipeline.checkpoint import Checkpoint

_PUBLISHED_EVERY_S = 0.002
_SCAN_EVERY_S = 0.5
_OFFSETS_LINE = 2
"""The line of a file in `offsets` that holds the source's offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTime:
    """One micro-batch; times are seconds since the Unix epoch."""

    end: int
    """The sequence after its last row."""
    planned: float
    """Its offsets are written: Spark begins to execute it."""
    stepped: float
    """Its state is written: the step has ended."""
    committed: float
    """Spark begins the next batch."""


@dataclass(slots=True)
class BatchTimes:
    """Follows a checkpoint in a thread; a context manager."""

    checkpoint: Checkpoint
    _offsets: dict[int, tuple[int, float]] = field(default_factory=dict)
    _states: dict[int, float] = field(default_factory=dict)
    _commits: dict[int, float] = field(default_factory=dict)
    _published: list[tuple[int, float]] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._follow, name="batch times", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._scan()

    def published(self, sequence: int) -> float:
        """Returns when this row was published; infinite if it was not seen."""
        at = bisect_right(self._published, (sequence, float("inf")))
        return self._published[at][1] if at < len(self._published) else float("inf")

    def batches(self) -> list[BatchTime]:
        """Returns the batches of which every time is known, oldest first."""
        return [
            BatchTime(
                end=self._offsets[number][0],
                planned=self._offsets[number][1],
                stepped=self._states[number + 1],
                committed=self._commits[number],
            )
            for number in sorted(self._offsets)
            if number + 1 in self._states and number in self._commits
        ]

    def _follow(self) -> None:
        path = self.checkpoint.journal / PUBLISHED
        descriptor = os.open(path, os.O_RDONLY)
        scan_at = 0.0
        try:
            while not self._ended.wait(_PUBLISHED_EVERY_S):
                now = time.time()
                end = position_file.read_open(descriptor, path).sequence
                if not self._published or self._published[-1][0] != end:
                    self._published.append((end, now))
                if now >= scan_at:
                    self._scan()
                    scan_at = now + _SCAN_EVERY_S
        finally:
            os.close(descriptor)

    def _scan(self) -> None:
        for path in _numbered(self.checkpoint.spark / "offsets", set(self._offsets)):
            with suppress(FileNotFoundError, IndexError, ValueError):
                end = json.loads(path.read_text().splitlines()[_OFFSETS_LINE])["sequence"]
                self._offsets[int(path.name)] = (end, path.stat().st_mtime)
        for folder, found in (
            (self.checkpoint.spark / "commits", self._commits),
            (self.checkpoint.spark / "state" / "0" / "0", self._states),
        ):
            for path in _numbered(folder, set(found)):
                with suppress(FileNotFoundError):
                    found[int(path.name.partition(".")[0])] = path.stat().st_mtime


def batch_of(sequence: int, batches: list[BatchTime]) -> tuple[BatchTime, BatchTime] | None:
    """Returns the batch that holds this row and the one before it; None if one of them is not known."""
    at = bisect_left(batches, sequence + 1, key=lambda batch: batch.end)
    return (batches[at], batches[at - 1]) if 0 < at < len(batches) else None


def _numbered(folder: Path, known: set[int]) -> list[Path]:
    paths = (path for path in folder.iterdir() if path.suffix == ".changelog" or path.name.isdigit())
    return [path for path in paths if int(path.name.partition(".")[0]) not in known]
