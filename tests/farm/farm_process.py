"""The farm in a process of its own, for benches and tests."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

Change = tuple[str, str, float]
"""A cluster, the state of its alert, and when: the Unix time in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmProcess:
    """The farm in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    fenced: set[int] = field(default_factory=set)

    def change(self, number: int) -> Change:
        """Fences or unfences the broker of a cluster; returns when, and what its alert must be."""
        assert self.process.stdin is not None
        self.fenced.symmetric_difference_update({number})
        firing, at = number in self.fenced, time.time()
        self.process.stdin.write(f"{'fence' if firing else 'unfence'} {number}\n")
        self.process.stdin.flush()
        return cluster_name(number), "firing" if firing else "resolved", at


@contextmanager
def running_farm(clusters: int, *lies: str) -> Iterator[FarmProcess]:
    """Starts the farm; its last clusters send these lies (`tests.farm.lies`)."""
    command = [sys.executable, "-m", "tests.farm.farm", str(clusters), *lies]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield FarmProcess(process=process, port=int(process.stdout.readline()))
        process.stdin.close()


def cluster_name(number: int) -> str:
    """Returns the name of a cluster in the configuration."""
    return f"farm-{number:04d}"


def cluster_id(number: int) -> str:
    """Returns the id of a cluster; those of all clusters have the same length."""
    return f"farm-cluster-{number:09d}"


def cluster_number(name: str) -> int:
    """Returns the number of the cluster with this name."""
    return int(name.removeprefix("farm-"))
