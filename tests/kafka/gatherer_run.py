"""A gatherer process for tests, and what it recorded."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.cluster_connection import Cluster
from connectors.event import Event, from_json
from connectors.gather.gatherer_settings import Settings, to_line
from connectors.journal.reader import Journal
from connectors.observation import Kind, Observation
from deploy.lab.lab import Lab

NAME = "a"


def address(endpoint: str) -> tuple[str, int]:
    host, _, port = endpoint.rpartition(":")
    return host, int(port)


def cluster_of(lab: Lab, *, bootstrap: Sequence[str] | None = None, **more: Any) -> Cluster:
    endpoints = lab.bootstrap if bootstrap is None else bootstrap
    return Cluster(
        name=NAME, bootstrap=tuple(map(address, endpoints)), cluster_id=more.pop("cluster_id", lab.cluster_id), **more
    )


@dataclass
class Gathering:
    """One gatherer that runs."""

    process: "subprocess.Popen[bytes]"
    journal: Journal
    stats_file: Path

    def rows(self, *kinds: Kind) -> list[Observation]:
        """What is published, of these kinds or all."""
        rows = self.journal.read(self.journal.first(), self.journal.published())
        return [row for row in rows if not kinds or row.kind in kinds]

    def events(self, kind: Kind) -> list[Event]:
        return [from_json(row.payload) for row in self.rows(kind)]

    @property
    def log(self) -> bytes:
        """Every record batch, in order."""
        return b"".join(row.payload for row in self.rows(Kind.RECORDS))

    @property
    def told(self) -> bytes:
        """All metadata: the snapshot that it began with, if the leader had one, and every record batch behind it."""
        return b"".join(row.payload for row in self.rows(Kind.SNAPSHOT)) + self.log

    def stats(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.stats_file.read_text())
        return read

    @property
    def requests(self) -> dict[str, int]:
        found: dict[str, int] = self.stats()["clusters"][NAME]
        return found

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)


@contextmanager
def gathering(folder: Path, *clusters: Cluster) -> Iterator[Gathering]:
    """A gatherer from its `ready` to the end of its leash."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(clusters=clusters, journal=str(folder / "journal"), stats=str(folder / "stats.json"))
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
            process.stdin.write(to_line(settings))
            process.stdin.flush()
            said = process.stdout.readline()
            assert said == b"ready\n", (said, (folder / "gather.log").read_text())
            yield Gathering(process, Journal(folder / "journal"), folder / "stats.json")
            if process.poll() is None:
                process.stdin.close()
                assert process.wait(60) == 0, (folder / "gather.log").read_text()
        finally:
            process.kill()
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
