"""The gatherer of a day of life: the rows of churning clusters, as fast as the job's wall clock runs."""

import json
import os
import pickle
import threading
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

from connectors.gather.gatherer_input import settings_from_line
from connectors.store.journal_writer import JournalWriter
from connectors.wall_clock import wall_ms
from tests.day_of_life.churning_cluster import ChurningCluster
from tests.scripts.script_quorum import SECOND

EVERY_S = 0.05
_AT_ONCE = 5
"""Seconds of a cluster, so that a busy machine delays no publication for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What the gatherer is to make."""

    seed: int
    clusters: tuple[str, ...]
    until_ms: int

    def write(self, file: Path) -> None:
        """Writes it for the gatherer's process."""
        file.write_text(json.dumps(asdict(self)), encoding="utf-8")

    def churning(self, now_ms: int) -> list[ChurningCluster]:
        """Returns the clusters, which begin now."""
        return [ChurningCluster(name, self.seed + number, now_ms) for number, name in enumerate(self.clusters)]


def replay(stdin: BinaryIO, stdout: TextIO, *, folder: Path, recording: Path) -> int:
    """Runs until `stdin` closes; the replacement of `connectors.gather.gatherer.main`."""
    day = Day(**json.loads(recording.read_text(encoding="utf-8")))
    settings, stored = settings_from_line(stdin.readline()), folder / "clusters"
    clusters: list[ChurningCluster] = pickle.loads(stored.read_bytes()) if stored.exists() else []
    stopping = threading.Event()
    threading.Thread(target=_await_end, args=(stdin, stopping), daemon=True).start()
    limit = {} if settings.keep_bytes is None else {"keep_bytes": settings.keep_bytes}
    with JournalWriter(Path(settings.journal), **limit) as journal:
        for cluster in clusters:
            progress = journal.follow_progress(cluster.name)
            cluster.resume(wall_ms(), log_again=progress is None or progress.next_offset is None)
        clusters = clusters or day.churning(wall_ms())
        stdout.write("ready\n")
        stdout.flush()
        while not stopping.wait(EVERY_S):
            now_ms = min(wall_ms(), day.until_ms)
            for cluster in clusters:
                for _ in range(min(_AT_ONCE, (now_ms - cluster.now_ms) // SECOND)):
                    journal.append([*cluster.advance()])
            journal.publish()
    stored.write_bytes(pickle.dumps(clusters))
    return os.EX_OK


def churn(folder: Path) -> Counter[str]:
    """Returns how often everything happened in the day of this folder, once its gatherer has ended."""
    clusters: list[ChurningCluster] = pickle.loads((folder / "clusters").read_bytes())
    return sum((Counter(cluster.counts) for cluster in clusters), Counter())


def _await_end(stdin: BinaryIO, stopping: threading.Event) -> None:
    for _ in stdin:
        pass
    stopping.set()
