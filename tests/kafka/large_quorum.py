"""A real controller whose metadata log begins with the snapshot of a large cluster.

The cluster's brokers are registered and unfenced for hours, but do not exist: requests in their name change partitions.
"""

import json
import math
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from deploy.lab.child_process import wait_until
from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from deploy.lab.jvm import Jvm
from deploy.lab.running_quorum import START_TIMEOUT_S
from tests.kafka.alter_partition import LedPartition, NotActiveError, alter_partition
from tests.lab import Lab

_WRITER = Path(__file__).with_name("LargeSnapshot.java")
_SESSION_MS = 12 * 3_600_000
"""The brokers' sessions: nobody sends their heartbeats."""
_CHANGEABLE = 2_000
_SEED = 7
_CHANGES_PER_THREAD = 20
"""A second: a request takes 30 ms until its record is on the disk."""
_PROPERTIES = {"broker.session.timeout.ms": str(_SESSION_MS), "auto.leader.rebalance.enable": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeSnapshotCounts:
    """What Kafka's writer has put into the snapshot."""

    topics: int
    partitions: int
    records: int
    recovering: int


class LargeQuorum(Lab):
    """A lab whose controllers have memory for a large cluster; `load` gives them its snapshot."""

    counts: LargeSnapshotCounts
    changeable: list[LedPartition]
    """Partitions of the whole snapshot whose replicas are all in sync, as `alter_partition` needs them."""

    def __init__(self, directory: Path, *, controllers: int = 1, memory_mb: int = 3_072) -> None:
        """Starts nothing yet. `memory_mb`: the heap of each controller; a million partitions need 2 GB."""
        super().__init__(directory, controllers=controllers, brokers=0, properties=_PROPERTIES)
        self._memory_mb = memory_mb

    def load(self, topics: int, partitions: int) -> None:
        """Restarts the controllers on a snapshot of so many topics with so many partitions each.

        Returns when the controller is active: it has accepted a first change.
        """
        nodes = self.layout.controllers
        self.stop(*self.controllers)
        voters = ",".join(f"{node.id}@{node.endpoint}:{node.directory_id}" for node in nodes)
        first, *others = (node.metadata_log for node in nodes)
        for folder in (first, *others):
            shutil.rmtree(folder)
            folder.mkdir()
        counts, *sample = write_snapshot(first, topics, partitions, voters)
        for folder in others:
            for path in first.iterdir():
                shutil.copy(path, folder)
        self.counts = LargeSnapshotCounts(**counts)
        self.changeable = [
            LedPartition(**one | {"replicas": tuple(one["replicas"])}, in_sync=len(one["replicas"])) for one in sample
        ]
        self.start(*self.controllers)
        wait_until(self._is_active, timeout_s=START_TIMEOUT_S, what="an active controller of the large cluster")

    @contextmanager
    def changing(self, per_second: float) -> Iterator["PartitionChanges"]:
        """Changes the ISR of random partitions meanwhile, each with a request of its own."""
        changes = PartitionChanges(self, per_second)
        try:
            yield changes
        finally:
            changes.end()

    def change(self, index: int) -> None:
        """Removes the last replica of a changeable partition from the ISR, or adds it again."""
        before = self.changeable[index]
        port = self.node(self.controllers[0]).controller_port
        if len(self.controllers) > 1:
            port = self.node(self.leader).controller_port
        assert port is not None
        in_sync = len(before.replicas) - (before.in_sync == len(before.replicas))
        self.changeable[index] = alter_partition(port, before, in_sync)

    def _is_active(self) -> bool:
        try:
            self.change(0)
        except NotActiveError:
            return False
        return True

    def _jvm_of(self, version: str) -> Jvm:
        jvm = super()._jvm_of(version)
        return replace(jvm, options=(*jvm.options, f"-Xmx{self._memory_mb}m", "-XX:TieredStopAtLevel=4"))


class PartitionChanges:
    """Changes partitions in threads until `end`, each of them its own partitions."""

    def __init__(self, quorum: LargeQuorum, per_second: float) -> None:
        self._quorum = quorum
        self._ended = threading.Event()
        self._failure: Exception | None = None
        threads = math.ceil(per_second / _CHANGES_PER_THREAD)
        self._interval_s = threads / per_second
        self._done = [0] * threads
        self._threads = [threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(threads)]
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> int:
        """Changes that the controller has accepted."""
        return sum(self._done)

    def end(self) -> None:
        """Ends the changes.

        Raises:
            LabError: the controller has refused one.
        """
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self, number: int) -> None:
        chosen, own = random.Random(_SEED), range(number, len(self._quorum.changeable), len(self._threads))
        due = time.monotonic() + self._interval_s * number / len(self._threads)
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due += self._interval_s
            try:
                self._quorum.change(chosen.choice(own))
            except Exception as error:  # noqa: BLE001 - raised by `end`
                self._failure = error
                return
            self._done[number] += 1


def write_snapshot(folder: Path, topics: int, partitions: int, voters: str) -> Sequence[dict[str, Any]]:
    """Writes a snapshot with Kafka's classes; returns its counts, then partitions whose replicas are all in sync."""
    command = ["java", "-Xmx1g", "-XX:+UseSerialGC", "-cp", f"{kafka_jars(KAFKA_VERSION)}/*", str(_WRITER)]
    command += [str(folder), str(topics), str(partitions), str(_SEED), voters, str(_CHANGEABLE)]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]
