"""KIP-595, the log: Fetch responses, control records, and records that may be truncated."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchResponse

from connectors.errors import ObservationError
from connectors.gather.commit_buffer import CommitBuffer, CommittedRecords, FetchPosition
from connectors.gather.observation_writer import redacted_batches
from connectors.kafka.messages import (
    FetchResult,
    parse_fetch,
)
from connectors.metadata.decoder import decode_records
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import (
    KRaftVersionSet,
    TopicCreated,
    Undecodable,
    VotersReplaced,
)
from connectors.observations.observation import Event
from rules.evaluate import evaluate, thresholds_for
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, SnapshotId
from rules.model.monitoring import Answer, FailedObservation, ObservationSource
from streaming.replay.machine import Machine
from tests.unit.connectors.gather.log_bytes import batch as log_batch
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer, received
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, control, data, record, tagged, text, uvarint
from tests.unit.connectors.metadata.metadata_record_schemas import written
from tests.unit.connectors.metadata.test_record_to_event import UUID as TOPIC_ID
from tests.unit.rules.situation import findings, healthy, present, probed
from tests.unit.streaming.replay.log_script import LogScript, apply, begun, key, machine


def answer(**partition: Any) -> Any:
    """Returns an encoded and decoded response with node 2 as the leader of epoch 7."""
    return received(fetch_answer(leader=2, epoch=7, **partition), 17)


def int32(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def response_bytes(*, error: int = 0, partition_error: int = 0, records: bytes = b"", **tags: bytes) -> bytes:
    """Returns a Fetch response of version 12 as KIP-595 writes it, byte by byte: each field has another value."""
    partition = int32(0) + partition_error.to_bytes(2, "big") + int64(5) + int64(4) + int64(2)
    aborted = uvarint(1 + 1) + int64(901) + int64(902) + tagged()
    partition += aborted + int32(903) + uvarint(len(records) + 1) + records + tagged(**tags)
    topic = text("__cluster_metadata") + uvarint(1 + 1) + partition + tagged()
    return int32(904) + error.to_bytes(2, "big") + int32(905) + uvarint(1 + 1) + topic + tagged()


def parsed(**fields: Any) -> FetchResult:
    return parse_fetch(FetchResponse.decode(response_bytes(**fields), version=12))


DIVERGING = int32(3) + int64(40) + tagged()
LEADER = int32(2) + int32(7) + tagged()
SNAPSHOT = int64(50) + int32(4) + tagged()


@pytest.mark.parametrize(
    ("tags", "diverging", "leader", "snapshot"),
    [
        ({}, None, None, None),
        ({"t0": DIVERGING}, SnapshotId(end_offset=40, epoch=3), None, None),
        ({"t0": int32(0) + int64(0) + tagged()}, SnapshotId(end_offset=0, epoch=0), None, None),
        ({"t1": LEADER}, None, (2, 7), None),
        ({"t1": int32(0) + int32(0) + tagged()}, None, (0, 0), None),
        ({"t2": SNAPSHOT}, None, None, SnapshotId(end_offset=50, epoch=4)),
        (
            {"t0": DIVERGING, "t1": LEADER, "t2": SNAPSHOT},
            SnapshotId(end_offset=40, epoch=3),
            (2, 7),
            SnapshotId(end_offset=50, epoch=4),
        ),
        (
            {
                "t0": int32(-1) + int64(-1) + tagged(),
                "t1": int32(-1) + int32(-1) + tagged(),
                "t2": int64(-1) + int32(-1) + tagged(),
            },
            None,
            None,
            None,
        ),
    ],
    ids=["none", "diverging", "diverging from the first record on", "leader", "leader 0", "snapshot", "all", "unset"],
)
def test_a_fetch_response_has_the_diverging_epoch_the_leader_and_the_snapshot_in_tagged_fields(
    tags: dict[str, bytes], diverging: SnapshotId | None, leader: tuple[int, int] | None, snapshot: SnapshotId | None
) -> None:
    said = parsed(**tags)

    assert said.error == 0, "a diverging log is no error"
    assert (said.diverging, said.snapshot) == (diverging, snapshot)
    assert (said.leader_id, said.leader_epoch) == (leader or (None, None))


def test_a_diverging_response_truncates_what_was_read_and_not_committed() -> None:
    """Offsets 0 to 2 are committed; the records of epochs 3 and 4 after them are not in the next leader's log."""
    tail = CommitBuffer(FetchPosition(offset=0, epoch=0))
    log = log_batch(0, 3, epoch=1) + log_batch(3, 2, epoch=3) + log_batch(5, 1, epoch=4)
    tail.accept(parse_fetch(answer(records=log, high_watermark=3)), now_ms=0)
    assert tail.fetch_position(7) == FetchPosition(offset=6, epoch=4)

    diverging = PARTITION.EpochEndOffset(epoch=1, end_offset=3)
    accepted = tail.accept(parse_fetch(answer(diverging_epoch=diverging, high_watermark=3)), now_ms=0)

    assert (accepted.committed, accepted.lost, accepted.pause) == (None, None, False)
    assert tail.fetch_position(7) == FetchPosition(offset=3, epoch=1)

    for read in (log, log_batch(0, 3, epoch=1)):
        nothing = CommitBuffer(FetchPosition(offset=0, epoch=0))
        nothing.accept(parse_fetch(answer(records=read, high_watermark=0)), now_ms=0)
        nothing.accept(parse_fetch(answer(diverging_epoch=diverging, high_watermark=0)), now_ms=0)
        assert nothing.fetch_position(7) == FetchPosition(offset=0, epoch=0), "nothing was committed yet"


TOPIC = data(2, 0, text("orders") + TOPIC_ID + b"\0")


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


def test_the_voters_are_in_the_fetched_records() -> None:
    voters = batch([voters_record(5, 1, 4, 2, 3)], base_offset=1, epoch=4)
    log = batch([TOPIC], epoch=3) + voters + batch([TOPIC, TOPIC], base_offset=2, epoch=6)

    before, record, after, last, _ = events(log)

    assert isinstance(before, TopicCreated)
    assert isinstance(record, VotersReplaced)
    assert isinstance(after, TopicCreated)
    assert isinstance(last, TopicCreated)
    positions = [(one.at.offset, one.at.leader_epoch) for one in (before, record, after, last)]
    assert positions == [(0, 3), (1, 4), (2, 6), (3, 6)]
    assert [(one.key.id, str(one.endpoints[0])) for one in record.voters] == [
        (node, f"c{node}:{9090 + node}") for node in (5, 1, 4, 2, 3)
    ]
    (newest,) = redacted_batches(log + batch([voters_record(1, 2)], base_offset=4)).endpoints
    assert isinstance(newest, VotersReplaced)
    assert [one.key.id for one in newest.voters] == [1, 2], "the newest set is probed"


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
        leader_id=NodeId(1),
        leader_epoch=Epoch(epoch),
        leader=None,
        high_watermark=Offset(high_watermark),
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


def test_three_voters_are_replaced_one_by_one() -> None:
    """The example of Quorum Reassignment: the leader is the last one that is removed."""
    script, replay = begun()
    for names in ("1-a 2-b 3-c", "1-a 2-b 3-c 4-d", "1-a 2-b 4-d", "1-a 2-b 4-d 5-e", "1-a 4-d 5-e", "1-a 4-d 5-e 6-f"):
        script.voters(*names.split())
        quorum = apply(replay, [script.read()])
        assert present(quorum.committed).keys == {key(name) for name in names.split()}
    script.leader(4, epoch=2)
    script.voters("4-d", "5-e", "6-f")

    quorum = apply(replay, [script.read()])

    assert quorum.leader_id == 4
    assert sorted(present(quorum.committed).ids) == [4, 5, 6]
    assert [one.key for one in quorum.removals] == [key("3-c"), key("2-b"), key("1-a")]
    assert quorum.history.reconfigurations == (), "none of the steps is a forced change"


def test_a_repeated_update_in_the_log_is_accepted() -> None:
    script, replay = begun()
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


def response_with(*topics: tuple[int, list[tuple[int, int]]]) -> Any:
    """Returns a response with these topics, their partitions and high watermarks."""
    kind = FetchResponse.FetchableTopicResponse
    responses = [
        kind(
            topic="",
            topic_id=UUID(int=topic),
            partitions=[
                PARTITION(partition_index=index, error_code=0, high_watermark=high_watermark, records=b"")
                for index, high_watermark in partitions
            ],
        )
        for topic, partitions in topics
    ]
    return received(FetchResponse(throttle_time_ms=0, error_code=0, responses=responses), 17)


def test_the_metadata_partition_is_selected_from_several_partitions() -> None:
    metadata, other = 1, (7, [(0, 99)])

    assert parse_fetch(response_with((metadata, [(1, 11), (0, 10)]))).high_watermark == 10
    assert parse_fetch(response_with(other, (metadata, [(0, 10)]))).high_watermark == 10
    for foreign in (response_with(other), response_with((metadata, [(1, 11)])), response_with()):
        with pytest.raises(ObservationError, match="does not contain the partition"):
            parse_fetch(foreign)


def test_an_inconsistent_voter_set_is_a_reason_of_monitor_blind() -> None:
    with pytest.raises(ObservationError) as raised:
        parsed(partition_error=94)
    problem = raised.value
    assert problem.detail == "Fetch: INCONSISTENT_VOTER_SET"
    script, replay = LogScript(), machine()
    observation_failed = FailedObservation(
        source=ObservationSource.LOG, endpoint="c1:9093", reason=problem.reason, detail=problem.detail
    )

    quorum = apply(replay, [script.row(observation_failed) for _ in range(60)])

    (finding,) = (one for one in evaluate(quorum, thresholds_for({})).findings if one.rule == "monitor-blind")
    assert "INCONSISTENT_VOTER_SET" in str(finding.evidence)


@pytest.mark.parametrize(
    ("found", "flaw"),
    [(Answer.OTHER_CLUSTER, "another cluster"), (Answer.OTHER_NODE, "is served by another process: node 2")],
)
def test_a_voters_endpoint_answered_by_another_cluster_or_node_fires(found: Answer, flaw: str) -> None:
    """Such a node stops by itself or never joins: it is not the voter."""
    (finding,) = findings(probed(healthy(), 1, answer=found, answered_by=2), "stale-voter-endpoint")

    assert finding.subject == "voter 1"
    assert flaw in f"{finding.summary} {finding.evidence}"
    (by_zero,) = findings(probed(healthy(), 1, answer=Answer.OTHER_NODE, answered_by=0), "stale-voter-endpoint")
    assert "is served by another process: node 0. " in by_zero.summary, "0 is a node id"
    (by_its_id,) = findings(probed(healthy(), 2, answered_by=1), "stale-voter-endpoint")
    assert "is served by another process: node 1" in by_its_id.summary
