"""Runs a gatherer process for a test and reads what it records."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.gather.gatherer_input import GathererSettings, ReportedRow, message_to_line, settings_to_line
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import Event, Observation, ObservationKind, from_json
from connectors.store.journal_reader import JournalReader
from rules.model.monitoring import FailedObservation
from rules.model.replica import Poll
from rules.model.witness import WitnessRow
from tests.lab import Lab

NAME = "a"


def address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def cluster_of(lab: Lab, *, bootstrap: Sequence[str] | None = None, **more: Any) -> ClusterConnection:
    endpoints = lab.bootstrap if bootstrap is None else bootstrap
    if lab.hosts_file is not None and "resolve" not in more:
        more.setdefault("hosts_file", str(lab.hosts_file))
    return ClusterConnection(
        name=NAME, bootstrap=tuple(map(address, endpoints)), cluster_id=more.pop("cluster_id", lab.cluster_id), **more
    )


@dataclass
class GathererRun:
    """A running gatherer process and its journal."""

    process: "subprocess.Popen[bytes]"
    journal: JournalReader
    stats_file: Path

    def rows(self, *kinds: ObservationKind) -> list[Observation]:
        """Returns the published rows, of these kinds or all."""
        rows = self.journal.read(self.journal.first_sequence(), self.journal.published_end())
        return [row for row in rows if not kinds or row.kind in kinds]

    def events(self, kind: ObservationKind) -> list[Event]:
        return [from_json(row.payload) for row in self.rows(kind)]

    def polls(self) -> list[Poll]:
        return [event for event in self.events(ObservationKind.QUORUM) if isinstance(event, Poll)]

    def failures(self, cluster: str = NAME) -> list[tuple[int, FailedObservation]]:
        """Returns time and event of each failed observation of a cluster."""
        rows = [row for row in self.rows(ObservationKind.FAILED) if row.cluster == cluster]
        events = [(row.observed_at_ms, from_json(row.payload)) for row in rows]
        return [(at, event) for at, event in events if isinstance(event, FailedObservation)]

    @property
    def log(self) -> bytes:
        """All record batches, in order."""
        return b"".join(row.payload for row in self.rows(ObservationKind.RECORDS))

    @property
    def metadata(self) -> bytes:
        """The snapshot that the gatherer fetched first, if the leader had one, and all record batches after it."""
        return b"".join(row.payload for row in self.rows(ObservationKind.SNAPSHOT)) + self.log

    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = json.loads(self.stats_file.read_text())
        return stats

    @property
    def requests(self) -> dict[str, int]:
        counts: dict[str, int] = self.stats()["clusters"][NAME]
        return counts

    def report(self, row: WitnessRow) -> None:
        """Hands it what the host of a node saw, as the job does."""
        assert self.process.stdin is not None
        self.process.stdin.write(message_to_line(ReportedRow(cluster=NAME, row=row)))
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


@contextmanager
def run_gatherer(folder: Path, *clusters: ClusterConnection) -> Iterator[GathererRun]:
    """Runs a gatherer from its `ready` line until the block ends and its stdin is closed."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = GathererSettings(clusters=clusters, journal=str(folder / "journal"), stats=str(folder / "stats.json"))
    with (
        (folder / "gather.log").open("ab") as errors,
        subprocess.Popen(
            [sys.executable, "-m", "connectors.gather"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(settings_to_line(settings))
            process.stdin.flush()
            first_line = process.stdout.readline()
            assert first_line == b"ready\n", (first_line, (folder / "gather.log").read_text())
            yield GathererRun(process, JournalReader(folder / "journal"), folder / "stats.json")
            if process.poll() is None:
                process.stdin.close()
                assert process.wait(60) == 0, (folder / "gather.log").read_text()
        finally:
            process.kill()
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
