"""Damaged files of the metadata log, on real controllers."""

from pathlib import Path

import pytest

from connectors.metadata.batches import RecordBatch, scan
from deploy.lab.node import Node
from rules.facts.freshness import fresh_poll
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = pytest.mark.lab


@pytest.mark.live
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


@pytest.mark.long
@pytest.mark.parametrize("header_only", [True, False], ids=["header", "body and next header"])
def test_damage_that_hides_where_the_next_batch_begins_is_named_and_the_log_is_read_on(
    lab: MakeLab, tmp_path: Path, header_only: bool
) -> None:
    """Half of a base offset and the length; or the end of a batch and the beginning of the next one."""
    quorum = lab(controllers=3, brokers=0)
    leader, others = quorum.leader, sorted(quorum.followers)
    await_index(quorum)
    first, second = batches_in_the_beginning(quorum.node(leader))
    if header_only:
        overwrite(quorum.node(leader), first.position + 4, bytes(8))
    else:
        overwrite(quorum.node(leader), first.end - 8, b"\xab" * 20)
    last = first.last_offset if header_only else second.last_offset

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({"monitor-blind.hold": 1})
        fired = monitor.wait_for("metadata-log-damaged")
        # What follows is read, and a restart repairs the log.
        read = monitor.machine.quorum().last_offset or 0
        monitor.wait_for_quorum(lambda now: (now.last_offset or 0) > max(read, last) + 2)
        quorum.stop(leader)
        quorum.start(leader)
        monitor.wait_for("metadata-log-damaged", "resolved", within_s=90)
        rules = monitor.rules

    assert (fired.severity, fired.subject) == ("critical", f"controller {leader}")
    assert (fired.evidence["first_offset"], fired.evidence["last_offset"]) == (first.base_offset, last)
    assert fired.evidence["voters_with_a_sound_copy"] == [f"{node}-{quorum.node(node).directory_id}" for node in others]
    assert not rules & {"monitor-blind", "data-contract-broken", "committed-metadata-lost"}
    log = quorum.node(leader).log_file.read_text(encoding="utf-8")
    assert f"Corruption found in segment 0, truncating to offset {first.base_offset}" in log


@pytest.mark.long
def test_a_leader_that_cannot_read_its_log_where_the_monitor_reads_on_is_named_until_another_one_leads(
    lab: MakeLab, tmp_path: Path
) -> None:
    """Kafka finds an offset by the headers before it. The monitor was stopped meanwhile: the others have read on."""
    quorum = lab(controllers=3, brokers=0)
    leader = quorum.leader
    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.wait_for_quorum(lambda now: (now.last_offset or 0) > 25)
    await_index(quorum)
    damaged, _ = batches_in_the_beginning(quorum.node(leader))
    overwrite(quorum.node(leader), damaged.position + 8, bytes(4))

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.set_thresholds({"monitor-blind.hold": 1})
        fired = monitor.wait_for("metadata-log-damaged")
        read = monitor.machine.quorum().last_offset or 0
        # Longer than an answer is current: nothing blames the monitor.
        monitor.wait_for_quorum(lambda now: now.now_ms - (now.log_fetched_at_ms or 0) > 3 * now.ages.answer_ms)
        rules = monitor.rules
        quorum.stop(leader)
        quorum.start(leader)
        monitor.wait_for("metadata-log-damaged", "resolved", within_s=90)
        monitor.wait_for_quorum(lambda now: (now.last_offset or 0) > read + 2)

    assert (fired.severity, fired.subject) == ("critical", f"controller {leader}")
    assert fired.evidence["first_offset"] == read + 1
    assert fired.evidence["detail"] == f"the leader cannot read its log at offset {read + 1} (UNKNOWN_SERVER_ERROR)"
    assert rules == {"metadata-log-damaged"}


@pytest.mark.long
def test_a_damaged_base_offset_survives_a_restart_and_is_gone_after_the_log_is_fetched_again(
    lab: MakeLab, tmp_path: Path
) -> None:
    """As the remedy says: the checksum does not cover it."""
    quorum = lab(controllers=3, brokers=0)
    leader = quorum.leader
    await_index(quorum)
    node, (damaged, _) = quorum.node(leader), batches_in_the_beginning(quorum.node(leader))
    overwrite(node, damaged.position, bytes(8))

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({})
        fired = monitor.wait_for("metadata-log-damaged")

    quorum.stop(leader)
    quorum.start(leader)
    assert not is_sound(node)
    quorum.stop(leader)
    node.metadata_log.rename(tmp_path / "moved")
    quorum.start(leader)
    quorum.await_state(lambda state: all(each.caught_up for each in state.voters), what="all voters in sync")
    assert is_sound(node)
    remedy = "\n".join(fired.remedy)
    assert f"# Do not only restart controller {leader}: the checksum of the damaged batch matches" in remedy
    assert "move its __cluster_metadata-0 directory away, and start it" in remedy


def is_sound(node: Node) -> bool:
    segment = max(node.metadata_log.glob("*.log")).read_bytes()
    return all(isinstance(each, RecordBatch) for each in scan(segment))


def await_index(quorum: Lab) -> None:
    """Waits until the log is longer than index.interval.bytes: fetches of its end then do not read its beginning."""
    quorum.await_state(lambda state: state.high_watermark > 80, what="4,096 bytes in the log", timeout_s=90)


def batches_in_the_beginning(node: Node) -> tuple[RecordBatch, RecordBatch]:
    """Returns two batches of a node's metadata log, one after the other."""
    segment = max(node.metadata_log.glob("*.log"))
    first, second = [each for each in scan(segment.read_bytes()) if isinstance(each, RecordBatch)][15:17]
    return first, second


def overwrite(node: Node, position: int, content: bytes) -> None:
    """Overwrites bytes of a node's metadata log, running or not."""
    with max(node.metadata_log.glob("*.log")).open("r+b") as file:
        file.seek(position)
        file.write(content)


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
def test_a_damaged_length_in_the_snapshot_of_the_leader_is_named_and_monitor_blind_leaves_it(
    lab: MakeLab, tmp_path: Path
) -> None:
    """A monitor that starts reads the snapshot first."""
    quorum = lab(controllers=3, brokers=1, properties={"metadata.log.max.record.bytes.between.snapshots": "20000"})
    for at in range(4):
        quorum.create_topic(f"many-{at}", partitions=100)
    leader = quorum.leader
    snapshot = eventually(lambda: newest_snapshot(quorum.node(leader)), within_s=30)
    batch = [each for each in scan(snapshot.read_bytes()) if isinstance(each, RecordBatch)][1]
    snapshot.chmod(0o600)
    with snapshot.open("r+b") as file:
        file.seek(batch.position + 8)
        file.write((2**31 - 20).to_bytes(4, "big"))

    with monitor_cluster(quorum, tmp_path) as monitor:
        fired = monitor.wait_for("metadata-log-damaged")
        monitor.wait_for_quorum(lambda seen: fresh_poll(seen) is not None)
        monitor.set_thresholds({"monitor-blind.hold": 1})
        monitor.wait_for_quorum(lambda seen: seen.now_ms - fired.observed_at_ms > 10_000)
        rules = monitor.rules

    assert (fired.severity, fired.subject) == ("critical", f"controller {leader}")
    assert (fired.evidence["snapshot"], fired.evidence["position_in_the_file"]) == (snapshot.name, batch.position)
    assert "kraftwatch cannot read it further either" in fired.summary
    assert rules == {"metadata-log-damaged"}


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
        with quorum.supervised(voter):
            fired = monitor.wait_for("node-restarting", subject=f"controller {voter}", within_s=180)
        newest.unlink()
        quorum.start(voter)
        quorum.await_state(lambda state: all(each.caught_up for each in state.voters), what="all voters in sync")

    assert "Each time its endpoint refused connections before. It has not registered since" in fired.summary
    assert "its newest .checkpoint in __cluster_metadata-0 is damaged; move that file away" in "\n".join(fired.remedy)
    assert "Unknown metadata version" in node.log_file.read_text(encoding="utf-8")


def newest_snapshot(node: Node) -> Path:
    newest = max(node.metadata_log.glob("*.checkpoint"))
    assert not newest.name.startswith(f"{0:020d}"), "only the one that formatting created"
    return newest
