"""Decoding: Kafka's own files give what Kafka wrote; invalid bytes give an Undecodable and never an exception."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.redaction import redact
from connectors.metadata.value_limits import LARGEST_OFFSET
from connectors.observations.log_event import (
    EpochDrop,
    LogAdvanced,
    PartitionSet,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
    UnknownRecords,
)
from connectors.observations.observation import Event, event_type
from rules.model.identifiers import Epoch, Offset
from tests.older_build import build_that_ends_at
from tests.unit.connectors.metadata.metadata_bytes import (
    batch,
    batch_of,
    control,
    data,
    noop,
    record,
    tagged,
    text,
    tinylog,
    tinysnapshot,
    varint,
)

TOPIC = bytes(range(16))
CHANGE = data(5, 2, bytes(4) + TOPIC)
CHANGED = data(17, 0, bytes(12))
REGISTRATION = "BrokerRegistrationChangeRecord"


def events(payload: bytes, *, base: int = 0, last: int = 0) -> list[Event]:
    """The events of a `records` observation."""
    table = decode_records(payload, base_offset=base, last_offset=last, leader_epoch=7, high_watermark=99)
    return list(table.events())


def snapshot_events(payload: bytes) -> list[Event]:
    """The events of one piece of a snapshot."""
    return list(decode_snapshot_piece(payload, end_offset=24_001, epoch=42).events())


def unknown(payload: bytes) -> list[UnknownRecords]:
    return [event for event in events(payload) if isinstance(event, UnknownRecords)]


def faults(payload: bytes) -> list[Undecodable]:
    return [event for event in events(payload) if isinstance(event, Undecodable)]


def test_the_events_of_a_log_by_kafka_match_the_counts_that_kafka_wrote() -> None:
    log, sidecar = tinylog()

    decoded = events(log, last=sidecar["last_offset"])

    written = sidecar["by_type"]
    assert Counter(map(event_type, decoded)) == {
        "broker-registered": written["REGISTER_BROKER_RECORD"],
        "broker-changed": written["BROKER_REGISTRATION_CHANGE_RECORD"],
        "controller-registered": written["REGISTER_CONTROLLER_RECORD"],
        "feature-level-set": written["FEATURE_LEVEL_RECORD"],
        "grant-set": written["ACCESS_CONTROL_ENTRY_RECORD"],
        "kraft-version-set": sidecar["control_by_type"]["KRAFT_VERSION"],
        "leader-changed": sidecar["control_by_type"]["LEADER_CHANGE"],
        "log-advanced": 1,
        # Of 54 ConfigRecords.
        "min-in-sync-replicas-set": 1,
        "partition-changed": written["PARTITION_CHANGE_RECORD"],
        "partition-set": written["PARTITION_RECORD"],
        "producer-ids-allocated": written["PRODUCER_IDS_RECORD"],
        "topic-created": written["TOPIC_RECORD"],
        "topic-removed": written["REMOVE_TOPIC_RECORD"],
        "transaction-began": written["BEGIN_TRANSACTION_RECORD"],
        "transaction-ended": written["END_TRANSACTION_RECORD"],
        "voters-replaced": sidecar["control_by_type"]["KRAFT_VOTERS"],
    }
    end = decoded[-1]
    assert isinstance(end, LogAdvanced)
    assert end.newest_noop_ms is not None
    assert end == LogAdvanced(
        base_offset=Offset(0),
        last_offset=sidecar["last_offset"],
        leader_epoch=Epoch(7),
        high_watermark=Offset(99),
        newest_timestamp_ms=sidecar["last_ts"],
        newest_noop_ms=end.newest_noop_ms,
        first_epoch=Epoch(1),
        last_epoch=Epoch(7),
    )


def test_the_events_of_a_snapshot_by_kafka_match_what_kafka_wrote() -> None:
    snapshot, sidecar = tinysnapshot()

    decoded = snapshot_events(snapshot)

    began, ended = decoded[0], decoded[-1]
    assert isinstance(began, SnapshotBegan)
    assert isinstance(ended, SnapshotEnded)
    assert (began.end_offset, began.epoch, began.at.offset, began.at.snapshot) == (24_001, 42, 0, True)
    assert (ended.end_offset, ended.epoch) == (24_001, 42)
    assert ended.at.offset == sidecar["data_records"] + sidecar["control_records"] - 1
    with_elr = sum(isinstance(event, PartitionSet) and bool(event.elr) for event in decoded)
    assert 0 < with_elr <= sidecar["with_elr_or_last_known_elr"]
    assert not any(isinstance(event, LogAdvanced | Undecodable) for event in decoded)


@pytest.mark.parametrize("decode", [events, snapshot_events])
@pytest.mark.parametrize("kafka_file", [tinylog, tinysnapshot])
def test_redaction_removes_nothing_that_decoding_needs(
    kafka_file: Callable[[], tuple[bytes, object]], decode: Callable[[bytes], list[Event]]
) -> None:
    payload, _ = kafka_file()

    assert decode(redact(payload)) == decode(payload)


def test_an_empty_payload_still_gives_a_log_advanced() -> None:
    assert events(b"", base=10, last=9) == [
        LogAdvanced(
            base_offset=Offset(10),
            last_offset=Offset(9),
            leader_epoch=Epoch(7),
            high_watermark=Offset(99),
            newest_timestamp_ms=None,
        )
    ]


def test_epochs_of_noops_are_reported_and_a_decrease_too() -> None:
    epochs = (5, 6, 4, 6, 3)
    payload = b"".join(batch([noop()], base_offset=offset, epoch=epoch) for offset, epoch in enumerate(epochs))

    (advanced,) = decode_records(payload, base_offset=0, last_offset=4, leader_epoch=7, high_watermark=99).events()

    assert isinstance(advanced, LogAdvanced)
    assert (advanced.first_epoch, advanced.last_epoch) == (5, 3)
    assert advanced.epoch_drop == EpochDrop(offset=Offset(2), epoch=Epoch(4), before=Epoch(6))


@pytest.mark.parametrize("written_at", [(500, 1_000), (1_000, 500), (500, 1_000, 700), (0, 0)])
@pytest.mark.parametrize("value", [noop(), CHANGE])
def test_the_newest_timestamp_is_that_of_the_latest_batch_in_any_order(
    written_at: tuple[int, ...], value: bytes
) -> None:
    payload = b"".join(batch([value], base_offset=at, timestamp=ms) for at, ms in enumerate(written_at))

    *_, end = events(payload, last=len(written_at) - 1)

    assert isinstance(end, LogAdvanced)
    assert end.newest_timestamp_ms == max(written_at)
    assert end.newest_noop_ms == (None if value is CHANGE else max(written_at))


def test_transaction_records_give_their_events() -> None:
    payload = batch([data(23, 0, tagged(t0=text("Bootstrap records"))), data(24, 0, b"\0"), data(25, 0, b"\0")])

    began, ended, aborted, _ = events(payload)

    assert isinstance(began, TransactionBegan)
    assert began.name == "Bootstrap records"
    assert isinstance(ended, TransactionEnded)
    assert isinstance(aborted, TransactionEnded)
    assert (ended.aborted, aborted.aborted) == (False, True)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (data(2, 0, text("t") + TOPIC, frame=3), "frame version 3, expected 1"),
        (data(2, 0, text("t") + TOPIC), "TopicRecord version 0 ends in the middle of a field"),
        (data(2, 0, text("t") + bytes(16) + b"\0"), "TopicRecord has the zero UUID for a topic id"),
        (data(2, 0, b"\3\xff\xff" + TOPIC + b"\0"), "TopicRecord version 0 holds a string that is not UTF-8"),
        (
            data(11, 0, text("a") + b"\1" + text("s") * 3 + bytes(4) + b"\0?"),
            "UserScramCredentialRecord version 0 has 1 bytes more than its fields",
        ),
        (CHANGE + tagged(t5=b"\7"), "PartitionChangeRecord has leader recovery state 7, expected 0 or 1"),
        (
            CHANGED + tagged(t0=b"\5"),
            f"{REGISTRATION} has fenced 5 and inControlledShutdown 0, which Kafka does not define",
        ),
        (b"", "the value ends before its type and version"),
    ],
)  # fmt: skip
def test_an_undecodable_record_is_reported_and_the_next_is_read(value: bytes, reason: str) -> None:
    topic = data(2, 0, text("next") + TOPIC + b"\0")

    bad, good, _ = events(batch([value, topic], base_offset=5), base=5)

    assert isinstance(bad, Undecodable)
    assert (bad.offset, bad.reason) == (5, reason)
    assert bad.length == len(record(value, 0))
    assert isinstance(good, TopicCreated)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (2, b"\xff\xff", "LeaderChangeMessage version -1 is not known to any Kafka up to 4.4.0"),
        (3, b"\0\0" + bytes(8) + b"\0", "a SnapshotHeaderRecord outside a snapshot"),
    ],
)
def test_an_undecodable_control_record_is_reported(kind: int, value: bytes, reason: str) -> None:
    (bad,) = faults(batch([control(kind, value)]))

    assert bad.reason == reason


SECRET = b"\4" + text("1") + text("some.password") + text("hunter2")
UNKNOWN = [
    batch([data(3, 9, SECRET), data(501, 2, SECRET), data(3, 9, b"\0"), data(20, 0, b"\0"), data(501, 2, b"\0")]),
    batch([control(9, b"\0\3" + SECRET)]),
    batch([control(2, b"\0\7" + SECRET)]),
    batch([control(0xFFFF, b"\0\0")]),
]


@pytest.mark.parametrize("redacted", [False, True])
def test_unknown_types_and_versions_are_counted_in_each_batch_also_after_redaction(redacted: bool) -> None:
    found = [unknown(redact(each) if redacted else each) for each in UNKNOWN]

    assert [[(one.name, one.kafka_class, one.count, one.at.offset) for one in each] for each in found] == [
        [("PartitionRecord version 9", "PartitionRecord", 2, 0), ("record type 501 version 2", None, 2, 1)],
        [("control record type 9", None, 1, 0)],
        [("LeaderChangeMessage version 7", "LeaderChangeMessage", 1, 0)],
        [("control record type -1", None, 1, 0)],
    ]


def test_a_record_that_was_unknown_when_it_was_redacted_is_never_read_as_another() -> None:
    """Five zeros are the body of an UnregisterControllerRecord of controller 0."""
    with build_that_ends_at("4.3.1"):
        redacted = redact(batch([data(29, 0, bytes((0, 0, 0, 7, 0))), data(24, 0, b"\0")]))
    assert [(one.name, one.count) for one in unknown(redacted)] == [("UnregisterControllerRecord version 0", 1)]
    assert [*map(event_type, events(redacted))] == ["unknown-records", "transaction-ended", "log-advanced"]


def test_records_whose_whole_body_was_redacted_are_quarantined() -> None:
    payload = redact(batch([data(4, 0, SECRET)]))

    assert [bad.reason for bad in faults(payload)] == [
        "ConfigRecord version 0 did not match its schema and was blanked"
    ]


def damaged(content: bytes) -> bytes:
    return content[:-1] + bytes((content[-1] ^ 1,))


CRC = "the CRC-32C does not match: the batch is damaged"
GZIP = "compressed with gzip, which KRaft never writes: not read"
TORN = batch([noop()], base_offset=4)[:-2]
LAST = damaged(batch([noop()], base_offset=99))


@pytest.mark.parametrize(
    ("payload", "base", "reasons"),
    [
        # No batch before it confirms its own offset, which redaction overwrites.
        *((damaged(batch([noop()] * 2, base_offset=at)), at, [(at, CRC)]) for at in (0, 30, LARGEST_OFFSET)),
        (batch([noop()], base_offset=9), 0, [(0, "base offset 9, expected 0")]),
        # A damaged batch does not show how many records it has.
        (damaged(batch([noop()])) + batch([noop()], base_offset=7, attributes=1), 0, [(0, CRC), (7, GZIP)]),
        # Its own offset may be what is damaged.
        (batch([noop()] * 2) + batch([noop()], base_offset=2) + LAST, 0, [(3, CRC)]),
        (batch([noop()] * 2) + batch([noop()] * 4, base_offset=2, attributes=1) + LAST, 0, [(2, GZIP), (6, CRC)]),
        (
            batch([noop()]) + damaged(batch([noop()] * 2, base_offset=1)) + batch([noop()], base_offset=3) + TORN,
            0,
            [(1, CRC), (4, "the batch is torn: its end is missing")],
        ),
    ],
)
def test_unreadable_batches_are_quarantined_at_their_expected_offset(
    payload: bytes, base: int, reasons: list[tuple[int, str]]
) -> None:
    for content in (payload, redact(payload)):
        decoded = events(content, base=base)
        bad = [event for event in decoded if isinstance(event, Undecodable)]
        assert [(each.offset, each.reason) for each in bad] == reasons
        assert isinstance(decoded[-1], LogAdvanced)
        if payload.endswith(TORN):
            assert [each.length for each in bad] == [len(batch([noop()] * 2)), len(TORN)]


def test_records_of_an_invalid_shape_are_quarantined_one_by_one() -> None:
    topic = data(2, 0, text("t") + TOPIC + b"\0")
    shapes = [
        (record(topic, 0, key=b"k"), "a metadata record with a key"),
        (record(topic, 1, key=b""), "a metadata record with a key"),
        (record(topic, 9), "not a record: offset delta 9, expected 2"),
        (record(None, 3), "a record without a value"),
        (record(b"", 4, timestamp_delta=1), "the value ends before its type and version"),
        (varint(0), "not a record: its key exceeds it"),
    ]

    *bad, good, _ = events(batch_of(b"".join(shape for shape, _ in shapes) + record(topic, 6), 7))

    assert [(event.offset, event.reason) for event in bad if isinstance(event, Undecodable)] == [
        *enumerate(reason for _, reason in shapes)
    ]
    assert isinstance(good, TopicCreated)


@pytest.mark.parametrize("value", [data(2, 0, text("t") + TOPIC + b"\0"), CHANGE + b"\0"], ids=["topic", "partition"])
def test_an_events_timestamp_is_that_of_its_record(value: bytes) -> None:
    event, _ = events(batch_of(record(value, 0, timestamp_delta=250), 1, timestamp=1000))

    assert event.at.timestamp_ms == 1250  # type: ignore[union-attr]


@settings(max_examples=200)
@given(st.integers(0, 1_000_000), st.integers(0, 7), st.booleans())
def test_a_flipped_bit_never_raises_and_is_reported_except_in_a_leader_epoch(at: int, bit: int, blank: bool) -> None:
    whole = [item for item in scan(tinylog()[0][:20_000]) if isinstance(item, RecordBatch)]
    log = tinylog()[0][: whole[-1].end]
    at %= len(log)
    hit = next(item for item in whole if at < item.end)
    flipped = bytearray(log)
    flipped[at] ^= 1 << bit

    decoded = events(redact(bytes(flipped)) if blank else bytes(flipped))

    assert isinstance(decoded[-1], LogAdvanced)
    # The CRC does not cover the epoch; the offset is compared with the batch before.
    in_epoch = 12 <= at - hit.position < 16
    assert in_epoch or any(isinstance(event, Undecodable) for event in decoded)


@given(st.integers(0, 1_000_000))
def test_a_cut_at_any_byte_gives_the_events_before_it_and_a_torn_tail(cut: int) -> None:
    log = tinylog()[0][:20_000]
    whole = events(log)

    decoded = events(log[: cut % len(log)])

    readable = [event for event in decoded if not isinstance(event, LogAdvanced | Undecodable)]
    assert readable == whole[: len(readable)]
    assert sum(isinstance(event, Undecodable) for event in decoded) <= 1


@settings(max_examples=300)
@given(
    st.lists(
        st.builds(
            data,
            st.integers(0, 30),
            st.integers(0, 5),
            st.binary(max_size=90),
            frame=st.sampled_from([1, 1, 1, 0]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_decoding_records_of_any_bytes_never_raises_with_or_without_redaction(values: list[bytes]) -> None:
    for payload in (batch(values), redact(batch(values))):
        assert isinstance(events(payload)[-1], LogAdvanced)
        assert snapshot_events(payload) == snapshot_events(payload)


@given(st.binary(max_size=200))
def test_decoding_a_batch_of_any_bytes_never_raises(body: bytes) -> None:
    for count in (1, 3, 2**31 - 1):
        assert isinstance(events(batch_of(body, count))[-1], LogAdvanced)
