"""A gatherer that appends the rows of churning clusters instead of observing some, as fast as the job's clock runs.

It writes the journal as the gatherer does.
"""

import json
import os
import pickle
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from connectors.gather.gatherer_input import settings_from_line
from connectors.observations.observation import Observation
from connectors.process.wall_clock import wall_ms
from connectors.store.journal_writer import JournalWriter
from tests.bench.churning_cluster import ChurningCluster
from tests.scripts.script_quorum import SECOND

DAY, STORED = "day.json", "clusters"
EVERY_S = 0.04
_AT_ONCE = 5
"""Seconds of a cluster, so that a busy machine delays no publication for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What the gatherer is to make."""

    seed: int
    clusters: tuple[str, ...]
    until_ms: int

    def write(self, folder: Path) -> None:
        """Writes it for the gatherer's process."""
        (folder / DAY).write_text(json.dumps(asdict(self)), encoding="utf-8")

    def churning(self, now_ms: int) -> list[ChurningCluster]:
        """Returns the clusters, which begin now."""
        return [ChurningCluster(name, self.seed + number, now_ms) for number, name in enumerate(self.clusters)]


def gather(stdin: BinaryIO, stdout: TextIO, *, folder: Path) -> int:
    """Runs until `stdin` closes; the replacement of `connectors.gather.gatherer.main`."""
    settings = settings_from_line(stdin.readline())
    stopping = threading.Event()
    threading.Thread(target=_await_end, args=(stdin, stopping), daemon=True).start()
    limit = {} if settings.keep_bytes is None else {"keep_bytes": settings.keep_bytes}
    with (
        JournalWriter(Path(settings.journal), **limit) as journal,
        closing(rows(folder, journal)) as made,
    ):
        stdout.write("ready\n")
        stdout.flush()
        while not stopping.wait(EVERY_S):
            journal.append(next(made))
            journal.publish()
    return os.EX_OK


def _await_end(stdin: BinaryIO, stopping: threading.Event) -> None:
    stdin.read()
    stopping.set()


def rows(folder: Path, journal: JournalWriter) -> Generator[Sequence[Observation], None, None]:
    """Yields the rows of the seconds that have passed; stores the clusters at the end, for the next gatherer."""
    day = Day(**json.loads((folder / DAY).read_text(encoding="utf-8")))
    clusters = stored(folder)
    for cluster in clusters:
        progress = journal.follow_progress(cluster.name)
        cluster.resume(wall_ms(), log_again=progress is None or progress.next_offset is None)
    clusters = clusters or day.churning(wall_ms())
    try:
        while True:
            now_ms = min(wall_ms(), day.until_ms)
            yield [
                row
                for cluster in clusters
                for _ in range(min(_AT_ONCE, (now_ms - cluster.now_ms) // SECOND))
                for row in cluster.advance()
            ]
    finally:
        (folder / STORED).write_bytes(pickle.dumps(clusters))


def stored(folder: Path) -> list[ChurningCluster]:
    """Returns the clusters as the gatherer before has left them."""
    file = folder / STORED
    clusters: list[ChurningCluster] = pickle.loads(file.read_bytes()) if file.exists() else []
    return clusters


def churn(folder: Path) -> Counter[str]:
    """Returns how often everything happened in the day of this folder, once its gatherer has ended."""
    return sum((Counter(cluster.counts) for cluster in stored(folder)), Counter())
