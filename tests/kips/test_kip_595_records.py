"""KIP-595, the log: control records, committed records, and records that may be truncated."""

from dataclasses import replace

import pytest

from connectors.gather.commit_buffer import CommitBuffer, CommittedRecords, FetchPosition
from connectors.kafka.messages import FetchResult
from connectors.metadata.decoder import decode_records
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import (
    KRaftVersionSet,
    TopicCreated,
    Undecodable,
    VotersReplaced,
)
from connectors.observations.observation import Event
from rules.model.identifiers import Epoch, Millis, SnapshotId
from streaming.replay.machine import Machine
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, control, data, record, text
from tests.unit.connectors.metadata.metadata_record_schemas import written
from tests.unit.connectors.metadata.test_record_to_event import UUID
from tests.unit.streaming.replay.log_script import LogScript, apply, key, machine

TOPIC = data(2, 0, text("orders") + UUID + b"\0")


def voters_record(*nodes: int) -> tuple[bytes, bytes]:
    """Returns a VotersRecord's key and value; the directory id of node 2 is 16 times the byte 2."""
    voters = [
        {
            "voter_id": node,
            "voter_directory_id": bytes([node] * 16),
            "endpoints": [{"name": "CONTROLLER", "host": f"c{node}", "port": 9090 + node}],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
        for node in nodes
    ]
    return control(6, written(record_schemas().control[6].versions[0][0], {"version": 0, "voters": voters}))


def events(payload: bytes) -> list[Event]:
    table = decode_records(payload, base_offset=0, last_offset=9, leader_epoch=1, high_watermark=10)
    return list(table.events())


@pytest.mark.kip("D018", "D019")
def test_only_the_control_bit_marks_a_control_record() -> None:
    key_, value = control(5, written(record_schemas().control[5].versions[0][0], {"version": 0, "kraft_version": 1}))
    as_raft = batch([(key_, value)])
    as_data = batch_of(record(value, 0, key=key_), 1)

    assert isinstance(events(as_raft)[0], KRaftVersionSet)
    assert isinstance(events(as_data)[0], Undecodable), "the same key and value, and no control record"
    for other in (0x08, 0x10, 0x40, 0x80):
        with_other_bit = batch_of(record(TOPIC, 0), 1, attributes=other)
        assert isinstance(events(with_other_bit)[0], TopicCreated), "another bit does not make it one"
        assert isinstance(events(batch([(key_, value)], attributes=other))[0], KRaftVersionSet)


@pytest.mark.kip("A056", "D014", "D078", "E003")
def test_the_voters_are_in_the_fetched_records() -> None:
    log = batch([TOPIC]) + batch([voters_record(5, 1, 4, 2, 3)], base_offset=1) + batch([TOPIC], base_offset=2)

    before, record, after, _ = events(log)

    assert isinstance(before, TopicCreated)
    assert isinstance(record, VotersReplaced)
    assert isinstance(after, TopicCreated)
    assert [(one.key.id, str(one.endpoints[0])) for one in record.voters] == [
        (node, f"c{node}:{9090 + node}") for node in (5, 1, 4, 2, 3)
    ]


@pytest.mark.kip("D017", "K043", "K046")
def test_a_re_read_record_is_found_by_offset_and_epoch_and_changes_nothing() -> None:
    script, replay = LogScript(), machine()
    leader = script.leader(1)
    before = script.voters("1-a", "2-b", "3-c")
    script.voters("1-a", "2-b")
    last = script.leader(2, epoch=2)
    once = apply(replay, [script.read()])

    read = script.advanced(script.offset)
    again = apply(replay, [script.row(leader, before, last, read), script.row(last, read)])

    assert again.committed == once.committed
    assert (again.last_offset, again.failures, again.history) == (once.last_offset, (), once.history)
    rewritten = replace(before, at=replace(before.at, leader_epoch=Epoch(3)))
    assert apply(replay, [script.row(rewritten)]).failures, "the same offset in another epoch is another record"


def fetch_result(
    records: bytes, *, epoch: int, high_watermark: int, diverging: SnapshotId | None = None
) -> FetchResult:
    return FetchResult(
        error=0,
        leader_id=1,
        leader_epoch=epoch,
        leader=None,
        high_watermark=high_watermark,
        diverging=diverging,
        records=records,
    )


def take(tail: CommitBuffer, to: Machine, answer: FetchResult, sequence: int) -> None:
    """Decodes and replays the records that the gatherer releases of a response."""
    release = tail.accept(answer, now_ms=0).committed
    if not isinstance(release, CommittedRecords):
        return
    table = decode_records(
        release.batches,
        base_offset=release.base_offset,
        last_offset=release.last_offset,
        leader_epoch=release.leader_epoch,
        high_watermark=release.high_watermark,
    )
    to.apply(table, sequence=sequence, observed_at_ms=Millis(1_000 * sequence))


def voting(replay: Machine) -> list[int]:
    committed = replay.quorum().committed
    return sorted(committed.ids) if committed else []


@pytest.mark.kip("A046", "D138", "K046")
def test_a_voter_set_that_is_truncated_was_never_committed() -> None:
    tail, replay = CommitBuffer(FetchPosition(offset=0, epoch=0)), machine()
    first = batch([voters_record(1, 2, 3)])
    cut = batch([voters_record(1, 2, 3, 4)], base_offset=1)
    take(tail, replay, fetch_result(first + cut, epoch=1, high_watermark=1), 1)
    assert tail.next_offset == 2, "the change was received"
    assert voting(replay) == [1, 2, 3]

    take(tail, replay, fetch_result(b"", epoch=2, high_watermark=1, diverging=SnapshotId(end_offset=1, epoch=1)), 2)
    other = batch([voters_record(1, 2)], base_offset=1, epoch=2)
    take(tail, replay, fetch_result(other, epoch=2, high_watermark=2), 3)

    assert voting(replay) == [1, 2], "what took its place counts, once it is committed"
    take(tail, replay, fetch_result(b"", epoch=3, high_watermark=2, diverging=SnapshotId(end_offset=1, epoch=1)), 4)
    assert (tail.next_offset, voting(replay)) == (2, [1, 2]), "and is never truncated then"


@pytest.mark.kip("D136", "K010")
def test_three_voters_are_replaced_one_by_one() -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    for names in ("1-a 2-b 3-c", "1-a 2-b 3-c 4-d", "1-a 2-b 4-d", "1-a 2-b 4-d 5-e", "1-a 4-d 5-e", "1-a 4-d 5-e 6-f"):
        script.voters(*names.split())
        quorum = apply(replay, [script.read()])
        assert quorum.committed is not None
        assert quorum.committed.keys == {key(name) for name in names.split()}
    script.leader(4, epoch=2)
    script.voters("4-d", "5-e", "6-f")

    quorum = apply(replay, [script.read()])

    assert quorum.leader_id == 4
    assert quorum.committed is not None
    assert sorted(quorum.committed.ids) == [4, 5, 6]
    assert [one.key for one in quorum.removals] == [key("3-c"), key("2-b"), key("1-a")]
    assert quorum.history.reconfigurations == (), "none of the steps is a forced change"


@pytest.mark.kip("D119")
def test_a_repeated_update_in_the_log_is_accepted() -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    for _ in range(2):
        script.topic("orders")
        script.partition("orders", 0, 101, 102)
        script.change("orders", 0, isr=(102,), leader=102, recovering=True)
        script.topic("orders")
        script.change("orders", 0, isr=(102,))
    once = LogScript()
    once.leader(1)
    once.topic("orders")
    once.partition("orders", 0, 101, 102)
    once.change("orders", 0, isr=(102,), leader=102, recovering=True)

    (repeated,) = apply(replay, [script.read()]).recovering
    (single,) = apply(machine(), [once.read()]).recovering

    assert (repeated.isr, repeated.leader, repeated.replicas) == (
        single.isr,
        single.leader,
        single.replicas,
    )
    assert replay.undecodable == 0
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    (again,) = apply(replay, [script.read()]).recovering
    assert again.since_offset == repeated.since_offset
