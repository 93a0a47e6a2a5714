"""Several gatherer processes: one that hangs or crashes is restarted, and the clusters of the others notice nothing."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from connectors.cluster_connection import ClusterConnection
from connectors.cluster_share import share_of
from connectors.gather.gatherer_settings import GathererSettings, to_line
from connectors.gather.gatherer_stats import read_stats
from connectors.gather.loop_heartbeat import STALLED_S, stalled_loop_s
from connectors.gather.share_messages import (
    MessageKind,
    MessageReader,
    UnreadableMessageError,
    decode_rows,
    encode_rows,
    message,
)
from connectors.journal.reader import JournalReader
from connectors.observation import Observation, ObservationKind
from tests.bench.fleet_answers import NODES
from tests.bench.fleet_farm import address
from tests.eventually import eventually

NAMES = [f"farm-{number}" for number in range(4)]
FIRST = [name for name in NAMES if share_of(name, 2) == 0]
SECOND = [name for name in NAMES if share_of(name, 2) == 1]


class Group:
    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.stats = folder / "stats.json"
        self.journal = JournalReader(folder / "journal")

    def shares(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def share_with(self, name: str) -> psutil.Process:
        """The process that gathers a cluster: shares are started in the order of their numbers."""
        return sorted(self.shares(), key=lambda one: one.create_time())[share_of(name, 2)]

    def rows(self, name: str, kind: ObservationKind = ObservationKind.QUORUM) -> list[Observation]:
        if not self.journal.created:
            return []
        published = self.journal.read(self.journal.first_sequence(), self.journal.published_end())
        return [row for row in published if row.cluster == name and row.kind is kind]

    def waits_for_polls(self, names: list[str], more: int) -> None:
        before = {name: len(self.rows(name)) for name in names}

        def polled() -> None:
            assert all(len(self.rows(name)) >= before[name] + more for name in names)

        eventually(polled, within_s=30)

    def stalled_s(self) -> float:
        return stalled_loop_s(self.stats, pid=self.process.pid) or 0.0


@contextmanager
def gathering(folder: Path, port: int) -> Iterator[Group]:
    clusters = tuple(
        ClusterConnection(name=name, bootstrap=tuple((address(number, node), port) for node in NODES))
        for number, name in enumerate(NAMES)
    )
    settings = GathererSettings(
        clusters=clusters, journal=str(folder / "journal"), stats=str(folder / "stats.json"), processes=2
    )
    command = [sys.executable, "-m", "connectors.gather"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(to_line(settings))
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        yield Group(folder, process)
        children = psutil.Process(process.pid).children()
        process.stdin.close()
        assert process.wait(60) == 0
        assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = [sys.executable, "-m", "tests.bench.fleet_farm", "--clusters", str(len(NAMES))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as farm:
        assert farm.stdin is not None
        assert farm.stdout is not None
        yield json.loads(farm.stdout.readline())["port"]
        farm.stdin.close()


def test_crash_and_hang_of_one_process_leave_the_others_clusters_alone(tmp_path: Path, port: int) -> None:
    assert FIRST
    assert SECOND
    with gathering(tmp_path, port) as group:
        group.waits_for_polls(NAMES, 2)
        stats = read_stats(group.stats)
        assert stats is not None
        assert set(stats.clusters) == set(NAMES)
        assert stats.rows > 0

        crashed = group.share_with(SECOND[0])
        os.kill(crashed.pid, signal.SIGKILL)
        group.waits_for_polls(NAMES, 3)
        assert crashed.pid not in {share.pid for share in group.shares()}
        for name in NAMES:
            records = [row for row in group.rows(name, ObservationKind.RECORDS) if row.payload]
            ends = [(row.base_offset, row.last_offset) for row in records]
            # Each record once, before and after the restart.
            assert all(after[0] == (before[1] or 0) + 1 for before, after in pairwise(ends))
        assert group.rows(SECOND[0], ObservationKind.FAILED)

        hung = group.shares()[0]
        hung.suspend()
        try:
            others = [name for name in (FIRST, SECOND) if group.stalled_s() < STALLED_S]
            assert others
            eventually(lambda: group.stalled_s() >= STALLED_S, within_s=20)
            running = [names for names in (FIRST, SECOND) if _polls_continue(group, names)]
            assert len(running) == 1
        finally:
            hung.resume()
        eventually(lambda: group.stalled_s() < STALLED_S, within_s=20)
        group.waits_for_polls(NAMES, 2)


def _polls_continue(group: Group, names: list[str]) -> bool:
    before = {name: len(group.rows(name)) for name in NAMES}

    def some_polled() -> None:
        assert any(len(group.rows(name)) >= before[name] + 2 for name in NAMES)

    eventually(some_polled, within_s=20)
    return all(len(group.rows(name)) > before[name] for name in names)


def test_messages_arrive_whole_from_any_pieces() -> None:
    row = Observation(cluster="a", kind=ObservationKind.QUORUM, observed_at_ms=7, payload=b"{}")
    sent = message(MessageKind.ROWS, encode_rows([row, row])) + message(MessageKind.PUBLISH)
    for size in (1, 3, 7, len(sent)):
        reader = MessageReader()
        received = [one for at in range(0, len(sent), size) for one in reader.receive(sent[at : at + size])]
        assert [kind for kind, _ in received] == [MessageKind.ROWS, MessageKind.PUBLISH]
        assert [(one.cluster, one.observed_at_ms, one.payload) for one in decode_rows(received[0][1])] == [
            ("a", 7, b"{}")
        ] * 2


@pytest.mark.parametrize("sent", [b"\x09\0\0\0\0", b"\x01\xff\xff\xff\xff"])
def test_bytes_that_are_no_message_are_refused(sent: bytes) -> None:
    with pytest.raises(UnreadableMessageError, match="no message"):
        list(MessageReader().receive(sent))


def test_rows_that_are_damaged_are_refused() -> None:
    row = Observation(cluster="a", kind=ObservationKind.QUORUM, observed_at_ms=7, payload=b"{}")
    with pytest.raises(UnreadableMessageError, match="cannot be read"):
        decode_rows(encode_rows([row])[:-1])
