"""KIP-595, Fetch and DescribeQuorum: the requests, and the leader and divergence in the responses."""

from typing import Any
from uuid import UUID

import pytest

from connectors.gather.commit_buffer import CommitBuffer, LogPosition
from connectors.gather.node_directory import NodeDirectory
from connectors.kafka.client import Address
from connectors.kafka.kafka_python import DescribeQuorumResponse, FetchRequest, FetchResponse
from connectors.kafka.messages import (
    SnapshotId,
    describe_quorum_request,
    fetch_request,
    parse_describe_quorum,
    parse_fetch,
)
from tests.unit.connectors.gather.log_bytes import batch

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


@pytest.mark.kip("D033", "D035", "D036")
@pytest.mark.parametrize(("error", "what"), [(6, "not the leader"), (74, "our epoch is old"), (75, "ours is newer")])
def test_an_epoch_error_gives_the_epoch_for_the_next_request(error: int, what: str) -> None:
    where = NodeDirectory(configured=(Address("c1", 9093),), cluster_id=None)

    said = parse_fetch(answer(error=error))
    where.update_from_fetch(said)

    assert (said.error, said.leader_id, said.leader_epoch) == (error, 2, 7), what
    assert where.leader_epoch == 7


@pytest.mark.kip("D069", "K017")
def test_a_diverging_response_has_no_error_and_the_end_of_the_common_epoch() -> None:
    said = parse_fetch(answer(diverging_epoch=PARTITION.EpochEndOffset(epoch=3, end_offset=40)))

    assert (said.error, said.diverging, said.snapshot) == (0, SnapshotId(end_offset=40, epoch=3), None)


@pytest.mark.kip("D069", "D121")
def test_a_leader_without_the_requested_offset_names_its_snapshot() -> None:
    said = parse_fetch(answer(snapshot_id=PARTITION.SnapshotId(end_offset=50, epoch=4)))

    assert (said.error, said.snapshot, said.diverging) == (0, SnapshotId(end_offset=50, epoch=4), None)


@pytest.mark.kip("D070")
def test_a_fetch_response_has_log_start_high_watermark_and_records() -> None:
    records = batch(2, 3, epoch=1)

    said = parse_fetch(answer(records=records, log_start_offset=2))

    assert (said.start_offset, said.high_watermark, said.records) == (2, 5, records)


def request_with(cluster_id: str | None) -> Any:
    request = fetch_request(
        cluster_id=cluster_id,
        leader_epoch=7,
        offset=10,
        last_epoch=3,
        high_watermark=9,
        max_wait_ms=500,
        max_bytes=1000,
    )
    return FetchRequest.decode(request.encode(version=17), version=17)


@pytest.mark.kip("D031", "D092")
def test_a_fetch_without_a_known_cluster_id_sends_none() -> None:
    assert request_with(None).cluster_id is None
    assert request_with("the-cluster").cluster_id == "the-cluster"


@pytest.mark.kip("A115", "D084", "K019")
def test_the_describe_quorum_request_is_the_same_in_every_version() -> None:
    bodies = {bytes(describe_quorum_request().encode(version=version)) for version in (0, 1, 2)}

    assert len(bodies) == 1
    assert describe_quorum_request().API_KEY == 55, "56 is AlterPartition"


@pytest.mark.kip("A093", "D085")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_describe_quorum_returns_leader_epoch_high_watermark_voters_and_observers(version: int) -> None:
    kind = DescribeQuorumResponse.TopicData.PartitionData
    rows = [kind.ReplicaState(replica_id=node, log_end_offset=end) for node, end in ((1, 20), (2, -1), (101, 18))]
    partition = kind(
        partition_index=0,
        error_code=0,
        leader_id=1,
        leader_epoch=7,
        high_watermark=19,
        current_voters=rows[:2],
        observers=rows[2:],
    )
    topic = DescribeQuorumResponse.TopicData(topic_name="x", partitions=[partition])
    whole = DescribeQuorumResponse(error_code=0, topics=[topic], nodes=[])
    read = DescribeQuorumResponse.decode(whole.encode(version=version), version=version)

    said = parse_describe_quorum(read, cluster_id=None, address=Address("c1", 9093))

    assert (said.leader_id, said.leader_epoch, said.high_watermark) == (1, 7, 19)
    assert [(one.key.id, one.log_end_offset) for one in said.voters] == [(1, 20), (2, None)]
    assert [(one.key.id, one.log_end_offset) for one in said.observers] == [(101, 18)]


@pytest.mark.kip("D067")
@pytest.mark.parametrize("high_watermark", [0, 3, 4])
def test_a_fetch_has_the_epoch_of_the_record_before_its_offset(high_watermark: int) -> None:
    """The epoch is that of the last received record, committed or not."""
    tail = CommitBuffer(LogPosition(offset=0, epoch=0))
    log = batch(0, 3, epoch=1) + batch(3, 1, epoch=4)

    tail.accept(parse_fetch(answer(records=log, high_watermark=high_watermark)), now_ms=0)

    assert tail.fetch_position(7) == LogPosition(offset=4, epoch=4)
