"""Files written by Kafka 4.3.1's own classes are replayed; the state equals the counts of their generator."""

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from rules.model.identifiers import Millis
from tests.unit.streaming.replay.log_script import machine

DATA = Path(__file__).parents[3] / "data" / "metadata"


@pytest.mark.parametrize("name", ["tinylog.log", "tiny.checkpoint"])
@pytest.mark.parametrize("chunk_bytes", [50_000, 10_000_000], ids=["in chunks", "whole"])
def test_replayed_state_equals_the_counts_of_the_generator(name: str, chunk_bytes: int) -> None:
    payload = lzma.decompress((DATA / f"{name}.xz").read_bytes())
    counted: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    replay = machine()
    for sequence, (first, last, chunk) in enumerate(_chunks(payload, chunk_bytes)):
        snapshot = name.endswith(".checkpoint")
        if snapshot:
            table = decode_snapshot_piece(chunk, end_offset=24_001, epoch=42)
        else:
            table = decode_records(chunk, base_offset=first, last_offset=last, leader_epoch=7, high_watermark=20_097)
        replay.apply(table, sequence=sequence, observed_at_ms=Millis(sequence))

    topics = replay.log.partitions.topics.values()
    partitions = [held for topic in topics for held in topic.partitions.values()]
    quorum = replay.quorum()
    assert replay.undecodable == 0
    assert quorum.last_offset == (24_000 if name.endswith(".checkpoint") else counted["last_offset"])
    state = {
        "topics": len(topics),
        "partitions": len(partitions),
        "recovering": len(quorum.recovering),
        "sum_leader": sum(-1 if held.leader is None else held.leader for held in partitions),
        "sum_isr_len": sum(len(held.isr) for held in partitions),
    }
    prefix = "" if name.endswith(".checkpoint") else "final_"
    assert state == {each: counted[prefix + each] for each in state}


def _chunks(payload: bytes, chunk_bytes: int) -> list[tuple[int, int, bytes]]:
    """Returns (first offset, last offset, batches): whole batches of about `chunk_bytes` bytes."""
    chunks: list[tuple[int, int, bytes]] = []
    start, position, first = 0, 0, 0
    for batch in scan(payload):
        assert isinstance(batch, RecordBatch)
        position += batch.size
        if position - start >= chunk_bytes or position == len(payload):
            chunks.append((first, batch.last_offset, payload[start:position]))
            start, first = position, batch.last_offset + 1
    return chunks
