"""Files written by Kafka 4.3.1's own classes are replayed; the state equals the counts of their generator."""

import pytest

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from rules.model.identifiers import Millis
from streaming.replay.partition_sums import sums_of
from tests.unit.connectors.metadata.metadata_bytes import tinylog, tinysnapshot
from tests.unit.streaming.replay.log_script import machine


@pytest.mark.kip("B016", "B034", "B056")
@pytest.mark.parametrize("snapshot", [False, True], ids=["log", "snapshot"])
@pytest.mark.parametrize("chunk_bytes", [50_000, 10_000_000], ids=["in chunks", "whole"])
def test_replayed_state_equals_the_counts_of_the_generator(snapshot: bool, chunk_bytes: int) -> None:
    payload, counted = tinysnapshot() if snapshot else tinylog()
    replay = machine()
    for sequence, (first, last, chunk) in enumerate(chunks(payload, chunk_bytes)):
        if snapshot:
            events = decode_snapshot_piece(chunk, end_offset=24_001, epoch=42)
        else:
            events = decode_records(chunk, base_offset=first, last_offset=last, leader_epoch=7, high_watermark=20_097)
        replay.apply(events, sequence=sequence, observed_at_ms=Millis(sequence))

    assert replay.undecodable == 0
    assert replay.quorum().last_offset == (24_000 if snapshot else counted["last_offset"])
    sums = sums_of(replay.log)
    counts = {name.removeprefix("final_"): count for name, count in counted.items()}
    assert sums == {name: counts.get(name, value) for name, value in sums.items()}
    assert {"topics", "partitions", "recovering", "sum_leader", "sum_leader_epoch", "sum_isr_len"} <= counts.keys()


def chunks(payload: bytes, chunk_bytes: int) -> list[tuple[int, int, bytes]]:
    """Returns (first offset, last offset, batches): whole batches of about `chunk_bytes` bytes."""
    found: list[tuple[int, int, bytes]] = []
    start, first = 0, 0
    for batch in scan(payload):
        assert isinstance(batch, RecordBatch)
        if batch.end - start >= chunk_bytes or batch.end == len(payload):
            found.append((first, batch.last_offset, payload[start : batch.end]))
            start, first = batch.end, batch.last_offset + 1
    return found
