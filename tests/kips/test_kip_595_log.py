"""KIP-595, Fetch: responses, control records, and records that may be truncated."""

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
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, SnapshotId
from streaming.replay.machine import Machine
from tests.kips.kip_records import events, voters_record
from tests.scripts.log_script import machine
from tests.unit.connectors.gather.log_bytes import batch as log_batch
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer, received
from tests.unit.connectors.metadata.decoded_records import UUID as TOPIC_ID
from tests.unit.connectors.metadata.metadata_bytes import batch, batch_of, control, data, record, tagged, text, uvarint
from tests.unit.connectors.metadata.metadata_record_schemas import written


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


def test_an_inconsistent_voter_set_is_named_as_the_reason() -> None:
    with pytest.raises(ObservationError) as raised:
        parsed(partition_error=94)

    assert raised.value.detail == "Fetch: INCONSISTENT_VOTER_SET"
