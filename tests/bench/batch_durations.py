"""BatchDurations: how long each micro-batch of a running job takes, read from its checkpoint."""

import threading
from contextlib import suppress
from pathlib import Path

_SCAN_EVERY_S = 0.5


class BatchDurations:
    """Follows a checkpoint: the time of each micro-batch from its plan to its commit. A context manager."""

    def __init__(self, checkpoint: Path) -> None:
        self._spark = checkpoint / "spark"
        self._times: dict[str, dict[str, float]] = {"offsets": {}, "commits": {}}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="batch durations", daemon=True)

    def __enter__(self) -> "BatchDurations":
        self._scan()
        # What was written before is no part of the measurement.
        self._known = set(self._times["offsets"])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._scan()

    def milliseconds(self) -> list[float]:
        """Returns the duration of each batch that was planned and committed meanwhile."""
        offsets, commits = self._times["offsets"], self._times["commits"]
        return [1_000 * (commits[name] - at) for name, at in offsets.items() if name in commits.keys() - self._known]

    def _follow(self) -> None:
        while not self._ended.wait(_SCAN_EVERY_S):
            self._scan()

    def _scan(self) -> None:
        for folder, found in self._times.items():
            for path in (self._spark / folder).iterdir():
                if path.name.isdigit() and path.name not in found:
                    with suppress(FileNotFoundError):
                        found[path.name] = path.stat().st_mtime
