"""Values that no Kafka writes: each becomes an Undecodable whose reason names the record, the field and the value."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from connectors.metadata.value_limits import LARGEST_OFFSET, LATEST_TIMESTAMP_MS
from connectors.observations.log_event import LogAdvanced, TopicCreated, Undecodable
from connectors.observations.observation import Event
from rules.model.membership import MOST_VOTERS
from tests.unit.connectors.metadata.metadata_bytes import batch, data, text
from tests.unit.connectors.metadata.metadata_record_schemas import metadata_value, raft_value
from tests.unit.connectors.metadata.voters_bytes import LISTENER, UUID, voters

YEAR_10000 = 253_402_300_800_000
TOPIC = data(2, 0, text("t") + UUID + b"\0")
NODE = 2**31 - 1
FEATURE = {"name": "metadata.version", "min_supported_version": 1, "max_supported_version": 30}
PARTITION = {"topic_id": UUID, "replicas": [1, 2], "leader": 1}


def partition(**changed: Any) -> bytes:
    return metadata_value(3, 2, **{**PARTITION, **changed})


def events(payload: bytes, **observed: int | None) -> list[Event]:
    numbers = {"base_offset": 5, "last_offset": 6, "leader_epoch": 7, "high_watermark": 9, **observed}
    return list(decode_records(payload, **numbers).events())


LEVELS = "expected 0 to 32767"
NODES = f"expected 0 to {NODE}"
FROM_ABSENT = f"expected -1 to {NODE}"
REFUSED: list[tuple[bytes | tuple[bytes, bytes], str]] = [
    (raft_value(2, leader_id=-1, voters=[]), f"LeaderChangeMessage has leader id -1, {NODES}"),
    (
        raft_value(2, leader_id=1, voters=[{"voter_id": 1}, {"voter_id": 1}]),
        "LeaderChangeMessage has voter id 1 twice",
    ),
    (
        raft_value(2, leader_id=1, voters=[{"voter_id": -7}]),
        f"LeaderChangeMessage has voter id -7, {NODES}",
    ),
    (raft_value(5, kraft_version=-1), f"KRaftVersionRecord has kraft.version -1, {LEVELS}"),
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
        metadata_value(12, 0, name="metadata.version", feature_level=-1),
        f"FeatureLevelRecord has feature level -1, {LEVELS}",
    ),
    (metadata_value(27, 0, controller_id=-1), f"RegisterControllerRecord has controller id -1, {NODES}"),
    (
        metadata_value(27, 0, features=[{**FEATURE, "min_supported_version": -1}]),
        "RegisterControllerRecord has lowest supported level -1, expected 0 to 30",
    ),
    (
        metadata_value(27, 0, features=[{**FEATURE, "min_supported_version": 31}]),
        "RegisterControllerRecord has lowest supported level 31, expected 0 to 30",
    ),
    (metadata_value(27, 0, features=[FEATURE, FEATURE]), "RegisterControllerRecord names a feature twice"),
    (metadata_value(27, 0, end_points=[LISTENER, LISTENER]), "RegisterControllerRecord names a listener twice"),
    (metadata_value(0, 3, broker_id=-2), f"RegisterBrokerRecord has broker id -2, {NODES}"),
    (
        metadata_value(0, 3, features=[{**FEATURE, "max_supported_version": -1}]),
        f"RegisterBrokerRecord has highest supported level -1, {LEVELS}",
    ),
    (
        metadata_value(0, 3, end_points=[{**LISTENER, "host": "h" * 32_768}]),
        "RegisterBrokerRecord version 3 has a string of 32768 bytes, expected at most 32767",
    ),
    (
        metadata_value(17, 0, broker_id=-1),
        f"BrokerRegistrationChangeRecord has broker id -1, {NODES}",
    ),
    (
        raft_value(2, leader_id=1, voters=[{"voter_id": 1}], granting_voters=[{"voter_id": -1}]),
        f"LeaderChangeMessage has granting voter id -1, {NODES}",
    ),
    (metadata_value(7, 0, id=-1), f"FenceBrokerRecord has broker id -1, {NODES}"),
    (metadata_value(8, 0, id=-1), f"UnfenceBrokerRecord has broker id -1, {NODES}"),
    (metadata_value(1, 0, broker_id=-1), f"UnregisterBrokerRecord has broker id -1, {NODES}"),
    (metadata_value(29, 0, controller_id=-1), f"UnregisterControllerRecord has controller id -1, {NODES}"),
    (partition(partition_id=-1), f"PartitionRecord has partition -1, {NODES}"),
    (partition(leader=-2), f"PartitionRecord has leader -2, {FROM_ABSENT}"),
    (partition(leader_epoch=-2), f"PartitionRecord has leader epoch -2, {FROM_ABSENT}"),
    (partition(partition_epoch=-2), f"PartitionRecord has partition epoch -2, {FROM_ABSENT}"),
    (partition(replicas=[]), "PartitionRecord has no replicas"),
    (partition(replicas=[1, -2]), f"PartitionRecord has replica -2, {NODES}"),
    (partition(replicas=[1, 2, 1]), "PartitionRecord has replica 1 twice"),
    (partition(isr=[2, 2]), "PartitionRecord has in-sync replica 2 twice"),
    (partition(adding_replicas=[-2]), f"PartitionRecord has adding replica -2, {NODES}"),
    (partition(removing_replicas=[3, 3]), "PartitionRecord has removing replica 3 twice"),
    (
        partition(eligible_leader_replicas=[-1]),
        f"PartitionRecord has eligible leader replica -1, {NODES}",
    ),
    (partition(last_known_elr=[1, 1]), "PartitionRecord has last known ELR replica 1 twice"),
    (
        partition(replicas=list(range(1_001)), isr=[]),
        "PartitionRecord has 1001 values of replica, expected at most 1000",
    ),
    (
        partition(replicas=list(range(70_000))),
        "PartitionRecord version 2 has 280040 bytes, expected at most 262144",
    ),
    (
        metadata_value(0, 3, features=[{**FEATURE, "name": f"f{at}"} for at in range(101)]),
        "RegisterBrokerRecord has 101 features, expected at most 100",
    ),
    (
        metadata_value(0, 3, log_dirs=[bytes(16)] * 1_001),
        "RegisterBrokerRecord has 1001 log directories, expected at most 1000",
    ),
    (
        raft_value(2, leader_id=1, voters=[{"voter_id": at} for at in range(101)], granting_voters=[]),
        "LeaderChangeMessage has 101 values of voter id, expected at most 100",
    ),
    (
        metadata_value(5, 2, topic_id=UUID, partition_id=-(2**31)),
        f"PartitionChangeRecord has partition -2147483648, {NODES}",
    ),
    (metadata_value(5, 2, topic_id=UUID, leader=-3), f"PartitionChangeRecord has leader -3, expected -2 to {NODE}"),
    (metadata_value(5, 2, topic_id=UUID, replicas=[]), "PartitionChangeRecord has no replicas"),
    (metadata_value(5, 2, topic_id=UUID, replicas=[1, 1]), "PartitionChangeRecord has replica 1 twice"),
    (metadata_value(5, 2, topic_id=UUID, isr=[-1]), f"PartitionChangeRecord has in-sync replica -1, {NODES}"),
    (
        metadata_value(5, 2, topic_id=UUID, eligible_leader_replicas=[1, 1]),
        "PartitionChangeRecord has eligible leader replica 1 twice",
    ),
    (
        metadata_value(5, 2, topic_id=UUID, last_known_elr=[-9]),
        f"PartitionChangeRecord has last known ELR replica -9, {NODES}",
    ),
    (metadata_value(5, 2, topic_id=UUID, adding_replicas=[1, 1]), "PartitionChangeRecord has adding replica 1 twice"),
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
        raft_value(5, kraft_version=2),
        voters({"voter_directory_id": bytes(16)}, {"voter_id": NODE, "endpoints": []}),
        voters(*({"voter_id": node, "endpoints": []} for node in range(MOST_VOTERS))),
        partition(leader=-1, leader_epoch=-1, partition_epoch=-1, isr=[]),
        partition(replicas=list(range(1_000))),
        metadata_value(5, 2, topic_id=UUID, leader=-2, isr=[]),
        metadata_value(0, 3, end_points=[{**LISTENER, "host": "h" * 32_767}]),
    ],
    ids=["later kraft.version", "no directory", "most voters", "no leader", "1000 replicas", "unchanged", "long host"],
)
def test_the_outermost_values_that_kafka_can_write_are_accepted(value: bytes | tuple[bytes, bytes]) -> None:
    event, _ = events(batch([value], base_offset=5))

    assert not isinstance(event, Undecodable)


TIMES = "expected -1 to 253370764800000"


@pytest.mark.parametrize("timestamp", [-1, 0, LATEST_TIMESTAMP_MS])
def test_no_timestamp_and_the_latest_one_are_accepted(timestamp: int) -> None:
    event, end = events(batch([TOPIC], base_offset=5, timestamp=timestamp))

    assert isinstance(event, TopicCreated)
    assert event.at.timestamp_ms == timestamp
    assert isinstance(end, LogAdvanced)
    assert end.newest_timestamp_ms == timestamp


@pytest.mark.parametrize("timestamp", [-2, YEAR_10000, 2**63 - 1])
def test_a_snapshot_header_with_an_impossible_timestamp_is_refused(timestamp: int) -> None:
    header = batch([raft_value(3, last_contained_log_timestamp=timestamp)])

    (bad,) = decode_snapshot_piece(header, end_offset=9, epoch=2).events()

    assert isinstance(bad, Undecodable)
    assert (bad.offset, bad.reason) == (
        0,
        f"SnapshotHeaderRecord has last contained timestamp {timestamp}, {TIMES}",
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
@example(2**63 - 2, 1, 2**31 - 1)
@example(LARGEST_OFFSET, 1, 0)
def test_an_event_has_a_valid_offset_whatever_the_header_says(base_offset: int, last_delta: int, expected: int) -> None:
    payload = batch([TOPIC], base_offset=base_offset, last_offset_delta=last_delta) + batch([TOPIC])

    for event in events(payload, base_offset=expected) + events(payload, base_offset=None):
        offset = event.offset if isinstance(event, Undecodable) else None
        assert offset is None or 0 <= offset <= LARGEST_OFFSET
