"""Damaged files of the metadata log, on real controllers."""

from pathlib import Path

import pytest

from connectors.metadata.batches import RecordBatch, scan
from deploy.lab.node import Node
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster

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
        monitor.wait_for("metadata-log-damaged", "resolved", within_s=15)
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
