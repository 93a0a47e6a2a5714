"""The sums over the resulting partitions follow Kafka's MetadataDelta, also of files that its own classes wrote."""

import pytest

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from rules.model.identifiers import Millis
from streaming.replay.partition_sums import apply_file, sums_of
from tests.scripts.log_script import machine
from tests.unit.connectors.metadata.metadata_bytes import batch, data, ints, tagged, text, tinylog, tinysnapshot
from tests.unit.connectors.metadata.unusual_records import change, numbers, partition

TOPIC = data(2, 0, text("orders") + bytes(range(16)) + b"\0")
OTHER_KEY = (7).to_bytes(4, "big") + b"\1" * 16
BEGIN, END, ABORT = (data(kind, 0, tagged(t0=text("tx")) if kind != 24 else b"\0") for kind in (23, 24, 25))


def sums(*records: bytes) -> dict[str, int]:
    return partition_sums(batch(records))


def partition_sums(content: bytes, *, snapshot: bool = False) -> dict[str, int]:
    return sums_of(apply_file(content, snapshot=snapshot).log)


def test_a_partition_is_summed_as_it_was_written() -> None:
    assert sums(TOPIC, partition(tags=tagged(t0=b"\1", t1=ints([3])))) == {
        "topics": 1,
        "partitions": 1,
        "recovering": 1,
        "with_elr_or_last_known_elr": 1,
        "no_leader": 0,
        "sum_leader_epoch": 4,
        "sum_partition_epoch": 9,
        "sum_leader": 1,
        "sum_isr_len": 2,
    }


def test_a_change_increments_the_epochs_that_kafka_increments() -> None:
    found = sums(TOPIC, partition(), change(t0=ints([3])), change(t1=numbers(-1)), change(t5=b"\1", t6=ints([1])))

    assert (found["sum_leader_epoch"], found["sum_partition_epoch"]) == (4 + 1, 9 + 3)
    assert (found["no_leader"], found["sum_leader"], found["sum_isr_len"]) == (1, -1, 1)
    assert (found["recovering"], found["with_elr_or_last_known_elr"]) == (1, 1)


def test_a_change_of_an_unknown_partition_has_no_effect() -> None:
    assert sums(TOPIC, change(t1=numbers(2)), partition(key=OTHER_KEY))["partitions"] == 1


def test_an_aborted_transaction_has_no_effect_and_an_open_one_none_yet() -> None:
    assert sums(TOPIC, BEGIN, partition(), END, BEGIN, change(t1=numbers(2)), ABORT)["sum_leader"] == 1
    assert sums(TOPIC, BEGIN, partition())["partitions"] == 0


def test_a_long_log_is_summed_in_pieces() -> None:
    log, expected = tinylog()
    found = partition_sums(log * 4)

    assert len(log * 4) > 4 << 20
    assert found["partitions"] == expected["final_partitions"]


def test_the_state_ends_before_a_gap() -> None:
    log = batch([TOPIC], base_offset=1) + batch([partition()], base_offset=5)

    assert apply_file(log, snapshot=False).ends_before == 2
    assert partition_sums(log)["topics"] == 1


def test_a_snapshot_is_summed_as_the_records_it_holds() -> None:
    records = (TOPIC, partition(), partition(key=OTHER_KEY))
    assert partition_sums(batch(records), snapshot=True) == sums(*records)


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
    for one in scan(payload):
        assert isinstance(one, RecordBatch)
        if one.end - start >= chunk_bytes or one.end == len(payload):
            found.append((first, one.last_offset, payload[start : one.end]))
            start, first = one.end, one.last_offset + 1
    return found
