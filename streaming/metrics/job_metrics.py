"""The running job at one scrape, and what /metrics tells of its work."""

import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from streaming.config.reload import ConfigFile
from streaming.metrics.batch_stats import Noted, Witness
from streaming.metrics.heartbeat import Beats
from streaming.metrics.metric import CLUSTER, Kind, Measure, Values
from streaming.status.status_store import Fleet

STATS_MS = 10_000
"""The gatherer writes its statistics each second: older ones are of a gatherer that is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the metrics of a running job come from."""

    fleet: Fleet
    witness: Witness
    well: Callable[[], bool]
    """Whether batches end and the gatherer runs."""
    gathers: Callable[[], bool]
    journal: Path
    quarantine: Path
    stats: Path
    """The file of `connectors.gather.gatherer_stats`."""
    beats: Callable[[], Beats | None] = lambda: None
    """Of the dead-man heartbeat, where one is configured."""
    config: ConfigFile | None = None
    """None where the job runs by its command line alone."""
    wall_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The job at one scrape."""

    sources: Sources
    noted: Noted
    now_ms: int
    stats: Mapping[str, Any] | None
    """None where the gatherer wrote none lately."""

    @staticmethod
    def of(sources: Sources) -> "Own":
        """The job now."""
        now_ms = sources.wall_ms()
        return Own(sources=sources, noted=sources.witness.noted, now_ms=now_ms, stats=_stats(sources.stats, now_ms))

    @property
    def portraits(self) -> Mapping[str, Mapping[str, Any]]:
        """The newest portrait, however old, of each configured cluster that was seen at all."""
        fleet = self.sources.fleet
        return {name: seen.portrait for name in fleet.names if (seen := fleet.seen(name)) is not None}


def _stats(path: Path, now_ms: int) -> Mapping[str, Any] | None:
    try:
        stats: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stats if now_ms - stats["at_ms"] <= STATS_MS else None


@cache
def _build() -> Mapping[tuple[str, ...], float]:
    return {(version("kraftwatch"), platform.python_version(), version("pyspark")): 1}


def _bytes(folder: Path) -> Values:
    """A segment may be deleted while we look."""
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except FileNotFoundError:
        return None


def _files(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.exists() else 0


def _refused(own: Own) -> Values:
    file = own.sources.config
    return None if file is None else file.error is not None


def _loaded(own: Own) -> Values:
    file = own.sources.config
    return None if file is None else file.loaded_at_ms / 1000


def _quarantined(own: Own) -> Values:
    return {(name,): own.noted.quarantined.get(name, 0) for name in own.portraits}


WORK: tuple[Measure[Own], ...] = (
    Measure(
        name="watchdog",
        words="1 while batches end and the gatherer runs, else 0: an alert on 1 fires always, and its silence tells.",
        read=lambda own: own.sources.well(),
    ),
    Measure(
        name="build_info",
        words="1, with the versions that run.",
        read=lambda own: _build(),
        labels=("version", "python", "spark"),
    ),
    Measure(
        name="config_refused",
        words="1 while the newest configuration file is refused, or in force but for a new cluster that is away.",
        read=_refused,
    ),
    Measure(
        name="config_loaded_timestamp_seconds",
        words="When the configuration that is in force was read.",
        read=_loaded,
    ),
    Measure(
        name="batches_total",
        words="Micro-batches that were delivered.",
        read=lambda own: own.noted.batches,
        kind=Kind.COUNTER,
    ),
    Measure(
        name="journal_bytes",
        words="Size of the journal on the disk.",
        read=lambda own: _bytes(own.sources.journal),
    ),
    Measure(
        name="quarantined_total",
        words="Records that did not decode since the job started.",
        read=_quarantined,
        labels=(CLUSTER,),
        kind=Kind.COUNTER,
    ),
    Measure(
        name="quarantine_files",
        words="What lies in quarantine, of all clusters and all runs.",
        read=lambda own: _files(own.sources.quarantine),
    ),
)
