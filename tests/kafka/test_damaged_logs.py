"""Damaged files of the metadata log, on real controllers."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from connectors.metadata.batches import RecordBatch, scan
from deploy.lab import LabError
from deploy.lab.node import Node
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = pytest.mark.lab


def test_a_damaged_batch_of_the_leader_is_no_fault_of_kraftwatch_and_its_restart_repairs_it(
    lab: MakeLab, tmp_path: Path
) -> None:
    quorum = lab(controllers=3, brokers=0)
    leader, others = quorum.leader, sorted(quorum.followers)
    quorum.await_state(lambda state: state.high_watermark > 20, what="some committed batches")
    damaged = damage_batch(quorum.node(leader))

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({})
        fired = monitor.wait_for("metadata-log-damaged")
        quorum.stop(leader)
        quorum.start(leader)
        monitor.wait_for("metadata-log-damaged", "resolved", within_s=90)
        # The new leader has a sound copy, which is read from the start.
        monitor.wait_for_quorum(lambda now: {*now.controllers} == {leader, *others} and now.leader_id != leader)
        rules = monitor.rules

    assert (fired.severity, fired.subject) == ("critical", f"controller {leader}")
    assert (fired.evidence["first_offset"], fired.evidence["last_offset"]) == damaged
    assert fired.evidence["voters_with_a_sound_copy"] == [f"{node}-{quorum.node(node).directory_id}" for node in others]
    assert f"# Restart controller {leader}: voters {others[0]} and {others[1]} have a sound copy" in "\n".join(
        fired.remedy
    )
    assert "data-contract-broken" not in rules
    log = quorum.node(leader).log_file.read_text(encoding="utf-8")
    assert f"Corruption found in segment 0, truncating to offset {damaged[0]}" in log


def damage_batch(node: Node) -> tuple[int, int]:
    """Flips a byte of a batch in the middle of a running node's metadata log; returns its first and last offset."""
    segment = max(node.metadata_log.glob("*.log"))
    batches = [each for each in scan(segment.read_bytes()) if isinstance(each, RecordBatch)]
    batch = max(batches[1 : len(batches) // 2], key=lambda each: each.size)
    with segment.open("r+b") as file:
        file.seek(batch.end - 3)
        byte = file.read(1)[0]
        file.seek(batch.end - 3)
        file.write(bytes([byte ^ 0xFF]))
    return batch.base_offset, batch.last_offset


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_controller_with_a_torn_snapshot_ends_at_each_start_and_is_told_from_one_that_is_down(
    lab: MakeLab, tmp_path: Path
) -> None:
    """It accepts connections for a fifth of a second each time: not every probe meets that."""
    quorum = lab(controllers=3, brokers=0, properties={"metadata.log.max.snapshot.interval.ms": "10000"})
    voter = quorum.followers[0]
    node = quorum.node(voter)
    newest = eventually(lambda: newest_snapshot(node), within_s=30)

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({"node-restarting.starts": 2})
        quorum.stop(voter)
        newest = newest_snapshot(node)
        newest.chmod(0o600)
        newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
        with started_again_and_again(quorum, voter):
            fired = monitor.wait_for("node-restarting", subject=f"controller {voter}", within_s=180)
        newest.unlink()
        quorum.start(voter)
        quorum.await_state(lambda state: all(each.caught_up for each in state.voters), what="all voters in sync")

    assert "Each time its endpoint refused connections before. It has not registered since" in fired.summary
    assert "its newest .checkpoint in __cluster_metadata-0 is damaged: move that file away" in "\n".join(fired.remedy)
    assert "Unknown metadata version" in node.log_file.read_text(encoding="utf-8")


def newest_snapshot(node: Node) -> Path:
    newest = max(node.metadata_log.glob("*.checkpoint"))
    assert not newest.name.startswith(f"{0:020d}"), "only the one that formatting created"
    return newest


@contextmanager
def started_again_and_again(quorum: Lab, node: int) -> Iterator[None]:
    """Starts a node each time it has ended, as a supervisor does."""
    ended = Event()

    def supervise() -> None:
        while not ended.is_set():
            if not quorum.node(node).running:
                quorum.start(node, wait=False)
            ended.wait(0.1)

    supervisor = Thread(target=supervise)
    supervisor.start()
    try:
        yield
    finally:
        ended.set()
        supervisor.join()
        with suppress(LabError):
            quorum.kill(node)
