"""KIP-595, Fetch and DescribeQuorum: the requests, and the leader and divergence in the responses."""

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeQuorumResponse
from kafka.protocol.consumer import FetchResponse

from connectors.gather.commit_buffer import CommitBuffer, FetchPosition
from connectors.kafka.cluster_connection import Address
from connectors.kafka.messages import (
    FetchResult,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
)
from connectors.kafka.schemas import FetchSnapshotRequest
from rules.model.identifiers import SnapshotId
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.metadata.metadata_bytes import tagged, text, uvarint

PARTITION = FetchResponse.FetchableTopicResponse.PartitionData


def answer(*, error: int = 0, records: bytes = b"", version: int = 17, **more: Any) -> Any:
    """Returns an encoded and decoded response with node 2 as the leader of epoch 7."""
    settings = {"high_watermark": 5, **more}
    partition = PARTITION(
        partition_index=0,
        error_code=error,
        current_leader=PARTITION.LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
        aborted_transactions=None,
        records=records,
        **settings,
    )
    topic = FetchResponse.FetchableTopicResponse(topic="", topic_id=UUID(int=1), partitions=[partition])
    whole = FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic])
    return FetchResponse.decode(whole.encode(version=version), version=version)


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


@pytest.mark.kip("D021", "D069", "K017", "D121")
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
def test_the_tagged_fields_of_a_fetch_response(
    tags: dict[str, bytes], diverging: SnapshotId | None, leader: tuple[int, int] | None, snapshot: SnapshotId | None
) -> None:
    said = parsed(**tags)

    assert said.error == 0, "a diverging log is no error"
    assert (said.diverging, said.snapshot) == (diverging, snapshot)
    assert (said.leader_id, said.leader_epoch) == (leader or (None, None))


@pytest.mark.kip("D069", "D072", "D073", "D079", "D080", "K017")
def test_a_diverging_response_truncates_what_was_read_and_not_committed() -> None:
    """Offsets 0 to 2 are committed; the records of epochs 3 and 4 after them are not in the next leader's log."""
    tail = CommitBuffer(FetchPosition(offset=0, epoch=0))
    log = batch(0, 3, epoch=1) + batch(3, 2, epoch=3) + batch(5, 1, epoch=4)
    tail.accept(parse_fetch(answer(records=log, high_watermark=3)), now_ms=0)
    assert tail.fetch_position(7) == FetchPosition(offset=6, epoch=4)

    diverging = PARTITION.EpochEndOffset(epoch=1, end_offset=3)
    accepted = tail.accept(parse_fetch(answer(diverging_epoch=diverging, high_watermark=3)), now_ms=0)

    assert accepted.committed is None
    assert tail.fetch_position(7) == FetchPosition(offset=3, epoch=1)

    for read in (log, batch(0, 3, epoch=1)):
        nothing = CommitBuffer(FetchPosition(offset=0, epoch=0))
        nothing.accept(parse_fetch(answer(records=read, high_watermark=0)), now_ms=0)
        nothing.accept(parse_fetch(answer(diverging_epoch=diverging, high_watermark=0)), now_ms=0)
        assert nothing.fetch_position(7) == FetchPosition(offset=0, epoch=0), "nothing was committed yet"


@pytest.mark.kip("D066")
def test_the_leaders_address_is_that_of_the_node_with_its_id() -> None:
    ends = [FetchResponse.NodeEndpoint(node_id=node, host=f"c{node}", port=9093) for node in (1, 2, 3)]
    redirected = answer(error=6)
    redirected.node_endpoints = ends

    assert parse_fetch(redirected).leader == Address("c2", 9093)


@pytest.mark.kip("D070")
def test_every_other_field_of_a_fetch_response_is_read_at_its_place() -> None:
    """Aborted transactions, last stable offset, session, throttling and preferred replica are for consumers."""
    records = batch(2, 3, epoch=1)

    said = parsed(records=records, t1=LEADER)

    assert (said.error, said.high_watermark, said.start_offset, said.records) == (0, 5, 2, records)


@pytest.mark.kip("D004", "D031", "D032", "D092")
@pytest.mark.parametrize("cluster_id", [None, "the-cluster"])
def test_a_snapshots_fetch_has_the_leader_epoch_and_the_cluster_id_too(cluster_id: str | None) -> None:
    snapshot = SnapshotId(end_offset=50, epoch=4)

    request = fetch_snapshot_request(
        cluster_id=cluster_id, leader_epoch=7, snapshot=snapshot, position=0, max_bytes=1000
    )

    read = FetchSnapshotRequest.decode(request.encode(version=1), version=1)
    assert read.cluster_id == cluster_id
    assert (read.topics[0].name, [one.partition for one in read.topics[0].partitions]) == ("__cluster_metadata", [0])
    assert read.topics[0].partitions[0].current_leader_epoch == 7


@pytest.mark.kip("A093", "C023", "D014", "D085")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum_returns_leader_epoch_high_watermark_voters_and_observers(version: int) -> None:
    kind = DescribeQuorumResponse.TopicData.PartitionData
    rows = [
        kind.ReplicaState(
            replica_id=node,
            log_end_offset=end,
            last_fetch_timestamp=1_000 + node,
            last_caught_up_timestamp=2_000 + node,
        )
        for node, end in ((1, 20), (2, -1), (101, 18))
    ]
    partition = kind(
        partition_index=0,
        error_code=0,
        leader_id=2,
        leader_epoch=7,
        high_watermark=19,
        current_voters=rows[:2],
        observers=rows[2:],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name="x", partitions=[partition])
    whole = DescribeQuorumResponse(error_code=0, topics=[topic], nodes=[])
    read = DescribeQuorumResponse.decode(whole.encode(version=version), version=version)

    said = parse_describe_quorum(read, cluster_id=None, address=Address("c1", 9093))

    assert (said.leader_id, said.leader_epoch, said.high_watermark) == (2, 7, 19)
    assert [(one.key.id, one.log_end_offset) for one in said.voters] == [(1, 20), (2, None)]
    assert [(one.key.id, one.log_end_offset) for one in said.observers] == [(101, 18)]
    times = [(one.last_fetch_ms, one.last_caught_up_ms) for one in (*said.voters, *said.observers)]
    assert times == ([(1_001, 2_001), (1_002, 2_002), (1_101, 2_101)] if version else [(None, None)] * 3)
