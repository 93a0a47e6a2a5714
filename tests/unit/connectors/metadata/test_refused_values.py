"""Values that no Kafka writes: each becomes an Undecodable whose reason names the record, the field and the value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.record_schemas import record_schemas
from connectors.metadata.value_limits import LARGEST_OFFSET, LATEST_TIMESTAMP_MS
from connectors.observations.log_event import LogAdvanced, TopicCreated, Undecodable
from connectors.observations.observation import Event
from rules.model.membership import MOST_VOTERS
from tests.unit.connectors.metadata.metadata_bytes import batch, control, data, text
from tests.unit.connectors.metadata.metadata_record_schemas import written

YEAR_10000 = 253_402_300_800_000
UUID = bytes(range(16))
TOPIC = data(2, 0, text("t") + UUID + b"\0")
NODE = 2**31 - 1
FEATURE = {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 30}
LISTENER = {"name": "CONTROLLER", "host": "c1.test", "port": 9093, "security_protocol": 0}
VOTER = {
    "voter_id": 1,
    "voter_directory_id": UUID,
    "endpoints": [LISTENER],
    "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
}
PARTITION = {
    "partition_id": 1,
    "topic_id": UUID,
    "replicas": [1, 2],
    "isr": [1],
    "removing_replicas": [],
    "adding_replicas": [],
    "leader": 1,
    "leader_epoch": 5,
    "partition_epoch": 6,
    "directories": [UUID, UUID],
    "leader_recovery_state": 1,
}
CHANGE = {"partition_id": 1, "topic_id": UUID}
BROKER = {
    "broker_id": 4,
    "is_migrating_zk_broker": False,
    "incarnation_id": UUID,
    "broker_epoch": 7,
    "end_points": [LISTENER],
    "features": [FEATURE],
    "rack": None,
    "fenced": False,
    "in_controlled_shutdown": False,
    "log_dirs": [],
}
CONTROLLER = {
    "controller_id": 3,
    "incarnation_id": UUID,
    "zk_migration_ready": False,
    "end_points": [LISTENER],
    "features": [FEATURE],
}


def metadata(api_key: int, version: int, values: dict[str, Any], **changed: Any) -> bytes:
    return data(
        api_key, version, written(record_schemas().records[api_key].versions[version][0], {**values, **changed})
    )


def raft(kind: int, **values: Any) -> tuple[bytes, bytes]:
    return control(kind, written(record_schemas().control[kind].versions[0][0], {"version": 0, **values}))


def voters(*listed: dict[str, Any]) -> tuple[bytes, bytes]:
    return raft(6, voters=[{**VOTER, **voter} for voter in listed])


def events(payload: bytes, **observed: int | None) -> list[Event]:
    numbers = {"base_offset": 5, "last_offset": 6, "leader_epoch": 7, "high_watermark": 9, **observed}
    return list(decode_records(payload, **numbers).events())


LEVELS = "expected 0 to 32767"
NODES = f"expected 0 to {NODE}"
FROM_ABSENT = f"expected -1 to {NODE}"
REFUSED: list[tuple[bytes | tuple[bytes, bytes], str]] = [
    (raft(2, leader_id=-1, voters=[], granting_voters=[]), f"LeaderChangeMessage has leader id -1, {NODES}"),
    (
        raft(2, leader_id=1, voters=[{"voter_id": 1}, {"voter_id": 1}], granting_voters=[]),
        "LeaderChangeMessage has voter id 1 twice",
    ),
    (
        raft(2, leader_id=1, voters=[{"voter_id": -7}], granting_voters=[]),
        f"LeaderChangeMessage has voter id -7, {NODES}",
    ),
    (raft(5, kraft_version=-1), f"KRaftVersionRecord has kraft.version -1, {LEVELS}"),
    (voters({}, {"voter_directory_id": bytes(16)}), "VotersRecord has voter id 1 twice"),
    (voters({"voter_id": -3}), f"VotersRecord has voter id -3, {NODES}"),
    (
        voters({"kraft_version_feature": {"min_supported_version": -1, "max_supported_version": 1}}),
        f"VotersRecord has supported kraft.version -1, {LEVELS}",
    ),
    (
        voters(*({"voter_id": node, "endpoints": []} for node in range(MOST_VOTERS + 1))),
        "VotersRecord names 101 voters; a quorum has at most 100",
    ),
    (voters({"endpoints": [LISTENER, LISTENER]}), "VotersRecord names a listener twice"),
    (
        voters({"endpoints": [{**LISTENER, "name": f"L{number}"} for number in range(101)]}),
        "VotersRecord has 101 endpoints of one node, expected at most 100",
    ),
    (
        metadata(12, 0, {"name": "metadata.version", "feature_level": -1}),
        f"FeatureLevelRecord has feature level -1, {LEVELS}",
    ),
    (metadata(27, 0, CONTROLLER, controller_id=-1), f"RegisterControllerRecord has controller id -1, {NODES}"),
    (
        metadata(27, 0, CONTROLLER, features=[{**FEATURE, "min_supported_version": -1}]),
        "RegisterControllerRecord has lowest supported level -1, expected 0 to 30",
    ),
    (
        metadata(27, 0, CONTROLLER, features=[{**FEATURE, "min_supported_version": 31}]),
        "RegisterControllerRecord has lowest supported level 31, expected 0 to 30",
    ),
    (metadata(27, 0, CONTROLLER, features=[FEATURE, FEATURE]), "RegisterControllerRecord names a feature twice"),
    (metadata(27, 0, CONTROLLER, end_points=[LISTENER, LISTENER]), "RegisterControllerRecord names a listener twice"),
    (metadata(0, 3, BROKER, broker_id=-2), f"RegisterBrokerRecord has broker id -2, {NODES}"),
    (
        metadata(0, 3, BROKER, features=[{**FEATURE, "max_supported_version": -1}]),
        f"RegisterBrokerRecord has highest supported level -1, {LEVELS}",
    ),
    (
        metadata(0, 3, BROKER, end_points=[{**LISTENER, "host": "h" * 32_768}]),
        "RegisterBrokerRecord version 3 has a string of 32768 bytes, expected at most 32767",
    ),
    (
        metadata(17, 0, {"broker_id": -1, "broker_epoch": 1}),
        f"BrokerRegistrationChangeRecord has broker id -1, {NODES}",
    ),
    (
        raft(2, leader_id=1, voters=[{"voter_id": 1}], granting_voters=[{"voter_id": -1}]),
        f"LeaderChangeMessage has granting voter id -1, {NODES}",
    ),
    (metadata(7, 0, {"id": -1, "epoch": 1}), f"FenceBrokerRecord has broker id -1, {NODES}"),
    (metadata(8, 0, {"id": -1, "epoch": 1}), f"UnfenceBrokerRecord has broker id -1, {NODES}"),
    (metadata(1, 0, {"broker_id": -1, "broker_epoch": 1}), f"UnregisterBrokerRecord has broker id -1, {NODES}"),
    (metadata(3, 2, PARTITION, partition_id=-1), f"PartitionRecord has partition -1, {NODES}"),
    (metadata(3, 2, PARTITION, leader=-2), f"PartitionRecord has leader -2, {FROM_ABSENT}"),
    (metadata(3, 2, PARTITION, leader_epoch=-2), f"PartitionRecord has leader epoch -2, {FROM_ABSENT}"),
    (metadata(3, 2, PARTITION, partition_epoch=-2), f"PartitionRecord has partition epoch -2, {FROM_ABSENT}"),
    (metadata(3, 2, PARTITION, replicas=[]), "PartitionRecord has no replicas"),
    (metadata(3, 2, PARTITION, replicas=[1, -2]), f"PartitionRecord has replica -2, {NODES}"),
    (metadata(3, 2, PARTITION, replicas=[1, 2, 1]), "PartitionRecord has replica 1 twice"),
    (metadata(3, 2, PARTITION, isr=[2, 2]), "PartitionRecord has in-sync replica 2 twice"),
    (metadata(3, 2, PARTITION, adding_replicas=[-2]), f"PartitionRecord has adding replica -2, {NODES}"),
    (metadata(3, 2, PARTITION, removing_replicas=[3, 3]), "PartitionRecord has removing replica 3 twice"),
    (
        metadata(3, 2, PARTITION, eligible_leader_replicas=[-1]),
        f"PartitionRecord has eligible leader replica -1, {NODES}",
    ),
    (metadata(3, 2, PARTITION, last_known_elr=[1, 1]), "PartitionRecord has last known ELR replica 1 twice"),
    (
        metadata(3, 2, PARTITION, replicas=list(range(32_768)), isr=[]),
        "PartitionRecord has 32768 values of replica, expected at most 32767",
    ),
    (
        metadata(3, 2, PARTITION, replicas=list(range(300_000))),
        "PartitionRecord version 2 has 1200079 bytes, expected at most 1048576",
    ),
    (metadata(5, 2, CHANGE, partition_id=-(2**31)), f"PartitionChangeRecord has partition -2147483648, {NODES}"),
    (metadata(5, 2, CHANGE, leader=-3), f"PartitionChangeRecord has leader -3, expected -2 to {NODE}"),
    (metadata(5, 2, CHANGE, replicas=[]), "PartitionChangeRecord has no replicas"),
    (metadata(5, 2, CHANGE, replicas=[1, 1]), "PartitionChangeRecord has replica 1 twice"),
    (metadata(5, 2, CHANGE, isr=[-1]), f"PartitionChangeRecord has in-sync replica -1, {NODES}"),
    (
        metadata(5, 2, CHANGE, eligible_leader_replicas=[1, 1]),
        "PartitionChangeRecord has eligible leader replica 1 twice",
    ),
    (metadata(5, 2, CHANGE, last_known_elr=[-9]), f"PartitionChangeRecord has last known ELR replica -9, {NODES}"),
    (metadata(5, 2, CHANGE, adding_replicas=[1, 1]), "PartitionChangeRecord has adding replica 1 twice"),
]


@pytest.mark.parametrize(("value", "reason"), REFUSED, ids=[reason[:70] for _, reason in REFUSED])
def test_a_value_that_no_kafka_writes_is_refused_with_its_field(
    value: bytes | tuple[bytes, bytes], reason: str
) -> None:
    payload = batch([value], base_offset=5) + batch([TOPIC], base_offset=6)

    bad, good, end = events(payload)

    assert isinstance(bad, Undecodable)
    assert (bad.offset, bad.reason) == (5, reason)
    assert isinstance(good, TopicCreated)
    assert isinstance(end, LogAdvanced)


@pytest.mark.parametrize(
    "value",
    [
        raft(5, kraft_version=2),
        voters({"voter_directory_id": bytes(16)}, {"voter_id": NODE, "endpoints": []}),
        voters(*({"voter_id": node, "endpoints": []} for node in range(MOST_VOTERS))),
        metadata(3, 2, PARTITION, leader=-1, leader_epoch=-1, partition_epoch=-1, isr=[]),
        metadata(3, 2, PARTITION, replicas=list(range(32_767))),
        metadata(5, 2, CHANGE, leader=-2, isr=[]),
        metadata(0, 3, BROKER, end_points=[{**LISTENER, "host": "h" * 32_767}]),
    ],
    ids=["later kraft.version", "no directory", "most voters", "no leader", "32767 replicas", "unchanged", "long host"],
)
def test_the_outermost_values_that_kafka_can_write_are_accepted(value: bytes | tuple[bytes, bytes]) -> None:
    event, _ = events(batch([value], base_offset=5))

    assert not isinstance(event, Undecodable)


TIMES = "expected -1 to 253370764800000"


@pytest.mark.parametrize("timestamp", [-2, LATEST_TIMESTAMP_MS + 1, YEAR_10000, 2**63 - 1])
@pytest.mark.parametrize(
    "value",
    [raft(2, leader_id=1, voters=[], granting_voters=[]), metadata(3, 2, PARTITION), TOPIC],
    ids=["LeaderChange", "recovering partition", "topic"],
)
def test_a_batch_with_an_impossible_timestamp_is_refused(value: bytes | tuple[bytes, bytes], timestamp: int) -> None:
    bad, end = events(batch([value], base_offset=5, timestamp=timestamp))

    assert isinstance(bad, Undecodable)
    assert bad.offset == 5
    assert bad.reason == f"invalid base and maximal timestamp {timestamp} and {timestamp}, {TIMES}"
    assert isinstance(end, LogAdvanced)
    assert end.newest_timestamp_ms is None


@pytest.mark.parametrize("timestamp", [-1, 0, LATEST_TIMESTAMP_MS])
def test_no_timestamp_and_the_latest_one_are_accepted(timestamp: int) -> None:
    event, end = events(batch([TOPIC], base_offset=5, timestamp=timestamp))

    assert isinstance(event, TopicCreated)
    assert event.at.timestamp_ms == timestamp
    assert isinstance(end, LogAdvanced)
    assert end.newest_timestamp_ms == timestamp


@pytest.mark.parametrize("timestamp", [-2, YEAR_10000, 2**63 - 1])
def test_a_snapshot_header_with_an_impossible_timestamp_is_refused(timestamp: int) -> None:
    header = batch([raft(3, last_contained_log_timestamp=timestamp)])

    (bad,) = decode_snapshot_piece(header, end_offset=9, epoch=2).events()

    assert isinstance(bad, Undecodable)
    assert (bad.offset, bad.reason) == (
        0,
        f"SnapshotHeaderRecord has last contained timestamp {timestamp}, {TIMES}",
    )


@pytest.mark.parametrize("base_offset", [LARGEST_OFFSET, 2**62, 2**63 - 2])
def test_offsets_at_the_end_of_their_range_are_refused_and_never_overflow(base_offset: int) -> None:
    payload = b"".join(batch([TOPIC, TOPIC], base_offset=offset) for offset in (base_offset, base_offset))

    decoded = events(payload, base_offset=base_offset)

    assert {event.type for event in decoded} == {"undecodable", "log-advanced"}
    assert all(
        event.offset is None or event.offset <= LARGEST_OFFSET for event in decoded if isinstance(event, Undecodable)
    )


@pytest.mark.parametrize(
    ("name", "value", "lowest", "highest"),
    [
        ("base_offset", -1, 0, LARGEST_OFFSET),
        ("base_offset", 2**63 - 1, 0, LARGEST_OFFSET),
        ("last_offset", -2, -1, LARGEST_OFFSET),
        ("last_offset", 2**63 - 1, -1, LARGEST_OFFSET),
        ("leader_epoch", -1, 0, NODE),
        ("leader_epoch", 2**31, 0, NODE),
        ("high_watermark", -1, 0, LARGEST_OFFSET),
        ("high_watermark", 2**63 - 1, 0, LARGEST_OFFSET),
    ],
)
def test_an_impossible_number_of_the_observation_is_refused_and_unknown(
    name: str, value: int, lowest: int, highest: int
) -> None:
    bad, topic, end = events(batch([TOPIC], base_offset=5), **{name: value})

    assert isinstance(bad, Undecodable)
    assert (bad.offset, bad.length) == (None, 0)
    assert bad.reason == f"the observation has {name.replace('_', ' ')} {value}, expected {lowest} to {highest}"
    assert isinstance(topic, TopicCreated)
    assert isinstance(end, LogAdvanced)
    assert name == "base_offset" or getattr(end, name) is None


@pytest.mark.parametrize(("end_offset", "epoch"), [(-1, 0), (2**63 - 1, 0), (0, -1), (0, 2**31)])
def test_a_piece_of_an_impossible_snapshot_is_refused(end_offset: int, epoch: int) -> None:
    (bad,) = decode_snapshot_piece(batch([TOPIC]), end_offset=end_offset, epoch=epoch).events()

    assert isinstance(bad, Undecodable)
    assert bad.reason.startswith("the observation has snapshot e")


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**31 - 1))
def test_an_event_has_a_valid_offset_whatever_the_header_says(base_offset: int, last_delta: int, expected: int) -> None:
    payload = batch([TOPIC], base_offset=base_offset, last_offset_delta=last_delta) + batch([TOPIC])

    for event in events(payload, base_offset=expected) + events(payload, base_offset=None):
        offset = event.offset if isinstance(event, Undecodable) else None
        assert offset is None or 0 <= offset <= LARGEST_OFFSET
