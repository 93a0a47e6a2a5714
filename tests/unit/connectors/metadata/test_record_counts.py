"""Records that are counted by column are counted as those that are decoded one by one, for any bytes."""

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from connectors.metadata.dump_log import DumpedRecord, DumpEntry, DumpGap, DumpProgress, dump_records
from connectors.metadata.json_rendering import BLANK
from connectors.metadata.log_summary import LogSummary, RecordCounts
from connectors.metadata.record_counts import count_records
from tests.hostile.hostile_log import hostile_log
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    noop,
    record,
    text,
    tinylog,
    tinysnapshot,
)
from tests.unit.connectors.metadata.test_column_redaction import CONFIGS
from tests.unit.connectors.metadata.unusual_records import UNUSUAL, UNUSUAL_FRAMING, USUAL, mutated_batches


def assert_same_summary(segment: bytes) -> LogSummary:
    """Checks that both ways give the same summary and the same damaged records; returns the summary."""
    by_column, decoded = LogSummary(), LogSummary()
    problems: list[list[DumpEntry]] = []
    ways: tuple[tuple[LogSummary, Iterator[DumpEntry | RecordCounts]], ...] = (
        (by_column, count_records(segment)),
        (decoded, dump_records(segment)),
    )
    for summary, entries in ways:
        found = [each for each in entries if not isinstance(each, DumpProgress)]
        for entry in found:
            summary.add(entry)
        problems.append([each for each in found if isinstance(each, DumpGap | DumpedRecord) and _is_problem(each)])
    assert by_column == decoded
    assert problems[0] == problems[1]
    return decoded


def _is_problem(entry: DumpGap | DumpedRecord) -> bool:
    return isinstance(entry, DumpGap) or entry.data is None


def test_a_summary_counts_what_cannot_be_decoded_but_not_missing_offsets() -> None:
    header = batch([control(3, b"\0\0" + bytes(8) + b"\0")])
    unknown = batch([data(99, 1, b"?"), b""], base_offset=1, epoch=2)
    after_a_gap = batch([noop()], base_offset=9, epoch=3)
    torn = b"\0"

    summary = assert_same_summary(header + unknown + after_a_gap + torn)

    assert summary == LogSummary(
        records=Counter({"UNKNOWN 99": 1, "unreadable": 1, "NO_OP_RECORD": 1}),
        control_records=Counter({"SnapshotHeader": 1}),
        undecodable=3,
        first_offset=0,
        last_offset=9,
        last_epoch=3,
    )
    assert summary.is_snapshot
    assert not assert_same_summary(unknown).is_snapshot


@pytest.mark.parametrize("file", [tinylog, tinysnapshot])
def test_records_of_files_that_kafka_wrote_are_counted_alike(file: Any) -> None:
    content, expected = file()

    assert assert_same_summary(content).records == expected["by_type"]
    alone = [entry for entry in count_records(content) if isinstance(entry, DumpedRecord)]
    assert len(alone) < 0.1 * expected["data_records"], "nearly all are counted by column"
    for payload in mutated_batches(content, count=20):
        assert_same_summary(payload)


def test_hostile_logs_are_counted_alike() -> None:
    for seed in range(500):
        assert_same_summary(hostile_log(Random(seed), base_offset=5, secret="s3cret").payload)


@pytest.mark.parametrize("name", [*USUAL, *UNUSUAL, *CONFIGS])
def test_one_record_among_others_is_counted_alike(name: str) -> None:
    one = (USUAL | UNUSUAL | CONFIGS)[name]
    usual = [*USUAL.values()]
    for values in ([one], [one] * 100, [*usual, one, *usual], [*usual, one]):
        assert_same_summary(batch(values, base_offset=30))


@pytest.mark.parametrize("name", UNUSUAL_FRAMING)
def test_the_first_and_the_last_offset_are_those_of_unusual_batches_too(name: str) -> None:
    count = len(USUAL)
    usual, more = (batch([*USUAL.values()], base_offset=at, epoch=at) for at in (30, 31 + count))
    odd = batch_of(UNUSUAL_FRAMING[name], 1, base_offset=30 + count, epoch=40)

    for segment in (odd, usual + odd, odd + more, usual + odd + more, odd + odd, usual + odd + odd[:70]):
        assert_same_summary(segment)


def test_positions_lead_to_the_end_of_the_file() -> None:
    first = batch([noop()] * 3)
    segment = first + batch([control(3, b"\0\0" + bytes(8) + b"\0")], base_offset=3) + batch([noop()], base_offset=4)

    positions = [entry.position for entry in count_records(segment) if isinstance(entry, DumpProgress)]

    assert positions == [len(first), len(segment)]


def test_credentials_in_records_that_are_not_counted_by_column_are_blanked() -> None:
    config = data(4, 0, b"\2" + text("broker") + text("ssl.keystore.password") + text("s3cret é") + b"\0")
    with_a_key = batch_of(record(config, 0, key=b"k"), 1)
    before_other_bytes = batch_of(record(config, 0) + b"\0", 1, base_offset=1)

    entries = count_records(with_a_key + before_other_bytes + batch([config], base_offset=2))

    shown = [entry.data for entry in entries if isinstance(entry, DumpedRecord)]
    assert [fields["value"] for fields in shown if fields is not None] == [BLANK] * 3


@pytest.mark.parametrize("name", [*USUAL, "config", "config with a null value"])
def test_a_usual_record_is_counted_by_column(name: str) -> None:
    values = [(USUAL | UNUSUAL)[name]] * 3

    assert not [entry for entry in count_records(batch(values)) if isinstance(entry, DumpedRecord)]
