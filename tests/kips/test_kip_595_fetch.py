"""KIP-595, Fetch: the leader and the divergence in the responses."""

from typing import Any

import pytest
from kafka.protocol.consumer import FetchResponse

from connectors.gather.commit_buffer import CommitBuffer, FetchPosition
from connectors.kafka.messages import FetchResult, parse_fetch
from rules.model.identifiers import SnapshotId
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer, received
from tests.unit.connectors.metadata.metadata_bytes import tagged, text, uvarint


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
