"""Conversion of records to events: every record that rules need, and absent values as None."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.metadata.decoder import decode_records
from connectors.metadata.record_schemas import CREDENTIAL_FIELDS, FieldType
from connectors.metadata.record_to_event import CONVERTERS, NEEDED_TEXT
from connectors.observations.log_event import (
    BrokerChanged,
    BrokerMinInSyncReplicasSet,
    BrokerUnregistered,
    ControllerUnregistered,
    ElrCleared,
    FeatureLevelSet,
    GrantSet,
    KRaftVersionSet,
    LeaderChanged,
    LogAdvanced,
    MinInSyncReplicasSet,
    PartitionChanged,
    PartitionSet,
    ProducerIdsAllocated,
    ThrottleSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
    VotersReplaced,
    ZkMigrationChanged,
)
from connectors.observations.observation import Event
from rules.model.history import ZkMigrationState
from rules.model.identifiers import DirectoryId, Endpoint, NodeId, ReplicaKey, TopicId
from rules.model.membership import BrokerRegistration, ControllerRegistration, FeatureRange, Voter
from tests.unit.connectors.metadata.decoded_records import AT, UUID, metadata, one, raft
from tests.unit.connectors.metadata.metadata_bytes import batch, data
from tests.unit.connectors.metadata.metadata_record_schemas import (
    EVERY_RECORD,
    kafka_values,
    metadata_value,
    raft_value,
    written,
)

PRINTED = "AAECAwQFBgcICQoLDA0ODw"
REVERSED = "Dw4NDAsKCQgHBgUEAwIBAA"
LISTENER = {"name": "CONTROLLER", "host": "c1.test", "port": 9093, "security_protocol": 1}
ENDPOINT = Endpoint(listener="CONTROLLER", host="c1.test", port=9093)
FEATURE = {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}
SUPPORTED = FeatureRange(name="metadata.version", lowest=7, highest=30)
LISTENERS = [LISTENER, {"name": "INTERNAL", "host": "fd00::3", "port": 40_123, "security_protocol": 3}]
ENDPOINTS = (ENDPOINT, Endpoint(listener="INTERNAL", host="fd00::3", port=40_123))
FEATURES = [FEATURE, {"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1}]
ALL_SUPPORTED = (FeatureRange(name="kraft.version", lowest=0, highest=1), SUPPORTED)


NODES = (NodeId(1), NodeId(2))


def nodes(*ids: int) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, ids))


def partition(version: int, **given: Any) -> bytes:
    return metadata_value(3, version, **{"topic_id": UUID, "replicas": [1, 2], "leader": -1, **given})


def partition_set(**given: Any) -> PartitionSet:
    without_leader = PartitionSet(
        at=AT, topic_id=TopicId(PRINTED), partition=0, replicas=NODES, isr=(), elr=(), leader=None,
        partition_leader_epoch=0, partition_epoch=0, recovering=False,
    )  # fmt: skip
    return replace(without_leader, **given)


def change(version: int, **given: Any) -> bytes:
    return metadata_value(5, version, topic_id=UUID, **given)


def partition_changed(**given: Any) -> PartitionChanged:
    nothing = PartitionChanged(
        at=AT, topic_id=TopicId(PRINTED), partition=0, replicas=None, isr=None, elr=None, leader=None, leader_set=False,
        recovering=None,
    )  # fmt: skip
    return replace(nothing, **given)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            raft_value(2, 0, leader_id=2, voters=[{"voter_id": 1}, {"voter_id": 2}]),
            LeaderChanged(at=AT, leader_id=NodeId(2), voter_ids=NODES),
        ),
        (
            raft_value(
                2, 0, leader_id=0, voters=[{"voter_id": 4}, {"voter_id": 0}, {"voter_id": 2}],
                granting_voters=[{"voter_id": 2}, {"voter_id": 0}],
            ),
            LeaderChanged(at=AT, leader_id=NodeId(0), voter_ids=nodes(4, 0, 2), granting_voter_ids=nodes(2, 0)),
        ),
        (raft_value(5, 0, kraft_version=1), KRaftVersionSet(at=AT, version=1)),
        (raft_value(5, 0, kraft_version=0), KRaftVersionSet(at=AT, version=0)),
        (
            metadata_value(12, 0, name="metadata.version", feature_level=29),
            FeatureLevelSet(at=AT, name="metadata.version", level=29),
        ),
        (
            metadata_value(27, 0, controller_id=1, incarnation_id=UUID, end_points=[LISTENER], features=[FEATURE]),
            ControllerRegistration(
                at=AT, id=NodeId(1), incarnation_id=PRINTED, endpoints=(ENDPOINT,), features=(SUPPORTED,)
            ),
        ),
        (
            metadata_value(27, 0, controller_id=0, incarnation_id=UUID, end_points=LISTENERS, features=FEATURES),
            ControllerRegistration(
                at=AT, id=NodeId(0), incarnation_id=PRINTED, endpoints=ENDPOINTS, features=ALL_SUPPORTED
            ),
        ),
        (
            metadata_value(
                0, 3, broker_id=0, incarnation_id=UUID, end_points=LISTENERS, features=FEATURES, fenced=True,
                in_controlled_shutdown=True, rack="r",
            ),
            BrokerRegistration(
                at=AT, id=NodeId(0), broker_epoch=0, incarnation_id=PRINTED, endpoints=ENDPOINTS, fenced=True,
                in_controlled_shutdown=True, features=ALL_SUPPORTED, rack="r",
            ),
        ),
        (
            metadata_value(15, 0, broker_id=4, next_producer_id=2_000),
            ProducerIdsAllocated(at=AT, broker=NodeId(4), next_id=2_000),
        ),
        (
            metadata_value(15, 0, broker_id=-1, next_producer_id=2_000),
            ProducerIdsAllocated(at=AT, broker=None, next_id=2_000),
        ),
        (
            metadata_value(0, 0, broker_id=4, incarnation_id=UUID, end_points=[LISTENER], fenced=True),
            BrokerRegistration(
                at=AT, id=NodeId(4), broker_epoch=0, incarnation_id=PRINTED, endpoints=(ENDPOINT,), fenced=True,
                in_controlled_shutdown=False,
            ),
        ),
        (
            metadata_value(
                0, 4, broker_id=4, in_controlled_shutdown=True, log_dirs=[UUID], cordoned_log_dirs=None,
                features=[FEATURE],
            ),
            BrokerRegistration(
                at=AT, id=NodeId(4), broker_epoch=0, incarnation_id="", endpoints=(), fenced=False,
                in_controlled_shutdown=True,
                features=(SUPPORTED,), log_dirs=(DirectoryId(PRINTED),),
            ),
        ),
        (
            metadata_value(4, 0, resource_type=2, resource_name="orders", name="min.insync.replicas", value="2"),
            MinInSyncReplicasSet(at=AT, topic="orders", value=2),
        ),
        (
            metadata_value(4, 0, resource_type=4, resource_name="", name="min.insync.replicas", value=None),
            MinInSyncReplicasSet(at=AT, topic=None, value=None),
        ),
        (
            metadata_value(4, 0, resource_type=4, resource_name="101", name="min.insync.replicas", value="2"),
            BrokerMinInSyncReplicasSet(at=AT, broker=NodeId(101), value=2),
        ),
        (
            metadata_value(
                4, 0, resource_type=2, resource_name="orders", name="leader.replication.throttled.replicas", value="*"
            ),
            ThrottleSet(at=AT, topic="orders", setting="leader.replication.throttled.replicas", is_set=True),
        ),
        (
            metadata_value(
                4, 0, resource_type=4, resource_name="4", name="leader.replication.throttled.rate", value=None
            ),
            ThrottleSet(at=AT, broker=NodeId(4), setting="leader.replication.throttled.rate", is_set=False),
        ),
        (
            metadata_value(18, 0, id=UUID, resource_type=2, resource_name="orders", principal="User:alice", host="*"),
            GrantSet(at=AT, grant=f"ACL {PRINTED}", is_set=True),
        ),
        (
            metadata_value(19, 0, id=UUID),
            GrantSet(at=AT, grant=f"ACL {PRINTED}", is_set=False),
        ),
        (
            metadata_value(11, 0, name="alice", mechanism=2),
            GrantSet(at=AT, grant="SCRAM-SHA-512 of user alice", is_set=True),
        ),
        (
            metadata_value(22, 0, name="alice", mechanism=1),
            GrantSet(at=AT, grant="SCRAM-SHA-256 of user alice", is_set=False),
        ),
        (
            metadata_value(22, 0, name="a" * 201, mechanism=1),
            GrantSet(
                at=AT,
                grant=f"SCRAM-SHA-256 of user {sha256(b'a' * 201).hexdigest()}",
                is_set=False,
            ),
        ),
        (
            metadata_value(0, 2, broker_id=4, is_migrating_zk_broker=True),
            BrokerRegistration(
                at=AT, id=NodeId(4), broker_epoch=0, incarnation_id="", endpoints=(), fenced=False,
                in_controlled_shutdown=False,
                zookeeper_mode=True,
            ),
        ),
        (
            metadata_value(17, 0, broker_id=4, fenced=-1),
            BrokerChanged(at=AT, id=NodeId(4), broker_epoch=0, fenced=False, in_controlled_shutdown=None),
        ),
        (
            metadata_value(17, 1, broker_id=4, in_controlled_shutdown=1),
            BrokerChanged(at=AT, id=NodeId(4), broker_epoch=0, fenced=None, in_controlled_shutdown=True),
        ),
        (
            metadata_value(17, 1, broker_id=0, fenced=1, in_controlled_shutdown=0),
            BrokerChanged(at=AT, id=NodeId(0), broker_epoch=0, fenced=True, in_controlled_shutdown=None),
        ),
        (
            metadata_value(17, 2, broker_id=4, log_dirs=[UUID]),
            BrokerChanged(
                at=AT, id=NodeId(4), broker_epoch=0, fenced=None, in_controlled_shutdown=None,
                log_dirs=(DirectoryId(PRINTED),)
            ),
        ),
        (
            metadata_value(7, 0, id=4),
            BrokerChanged(at=AT, id=NodeId(4), broker_epoch=0, fenced=True, in_controlled_shutdown=None),
        ),
        (
            metadata_value(8, 0, id=4),
            BrokerChanged(at=AT, id=NodeId(4), broker_epoch=0, fenced=False, in_controlled_shutdown=None),
        ),
        (metadata_value(1, 0, broker_id=4), BrokerUnregistered(at=AT, id=NodeId(4), broker_epoch=0)),
        (metadata_value(29, 0, controller_id=4), ControllerUnregistered(at=AT, id=NodeId(4))),
        (metadata_value(2, 0, name="t", topic_id=UUID), TopicCreated(at=AT, topic_id=TopicId(PRINTED), name="t")),
        (metadata_value(9, 0, topic_id=UUID), TopicRemoved(at=AT, topic_id=TopicId(PRINTED))),
        (metadata_value(28, 0, topic_name="t"), ElrCleared(at=AT, topic="t")),
        (metadata_value(28, 0, topic_name=""), ElrCleared(at=AT, topic=None)),
        (metadata_value(23, 0), TransactionBegan(at=AT, name=None)),
        (metadata_value(23, 0, name="migration"), TransactionBegan(at=AT, name="migration")),
        (metadata_value(24, 0), TransactionEnded(at=AT, aborted=False)),
        (metadata_value(25, 0), TransactionEnded(at=AT, aborted=True)),
        (
            partition(
                2, partition_id=6, isr=[2], leader=2, leader_epoch=9, partition_epoch=11, leader_recovery_state=1,
                eligible_leader_replicas=[1], last_known_elr=[2],
            ),
            partition_set(
                partition=6, isr=nodes(2), elr=nodes(1), leader=NodeId(2), partition_leader_epoch=9, partition_epoch=11,
                recovering=True, last_known_elr=nodes(2),
            ),
        ),
        (
            partition(
                0, replicas=[5, 0, 3], isr=[3, 0], leader=0, leader_epoch=12, partition_epoch=13,
                removing_replicas=[5], adding_replicas=[3],
            ),
            partition_set(
                replicas=nodes(5, 0, 3), isr=nodes(3, 0), leader=NodeId(0), partition_leader_epoch=12,
                partition_epoch=13, adding=nodes(3), removing=nodes(5),
            ),
        ),
        (
            partition(1, replicas=[2, 1], directories=[UUID, bytes(16)]),
            partition_set(replicas=nodes(2, 1), directories=(DirectoryId(PRINTED), None)),
        ),
        (change(1, directories=[UUID]), partition_changed(directories=(DirectoryId(PRINTED),))),
        (partition(0), partition_set()),
        (partition(1, leader_recovery_state=1), partition_set(recovering=True)),
        (partition(2, isr=[1], last_known_elr=[-1]), partition_set(isr=nodes(1))),
        (
            change(2, isr=[2], leader=2, leader_recovery_state=1, eligible_leader_replicas=[], last_known_elr=[1]),
            partition_changed(
                isr=nodes(2), elr=(), leader=NodeId(2), leader_set=True, recovering=True, last_known_elr=nodes(1)
            ),
        ),
        (
            change(
                2, partition_id=6, isr=[3, 0], leader=0, replicas=[5, 0, 3], removing_replicas=[5],
                adding_replicas=[3], leader_recovery_state=0, eligible_leader_replicas=[5], last_known_elr=[4],
            ),
            partition_changed(
                partition=6, replicas=nodes(5, 0, 3), isr=nodes(3, 0), elr=nodes(5), leader=NodeId(0), leader_set=True,
                recovering=False, last_known_elr=nodes(4), adding=nodes(3), removing=nodes(5),
            ),
        ),
        (
            # Kafka 4.3.1 writes it for a partition without a leader and an ELR, whose reassignment is cancelled.
            change(2, isr=[1], leader=-1, replicas=[1, 2], last_known_elr=[-1]),
            partition_changed(replicas=NODES, isr=nodes(1), leader_set=True, last_known_elr=()),
        ),
        (change(0, partition_id=6), partition_changed(partition=6)),
        (
            change(0, adding_replicas=[], removing_replicas=[]),
            partition_changed(adding=(), removing=()),
        ),
        (metadata_value(21, 0, zk_migration_state=1), ZkMigrationChanged(at=AT, state=ZkMigrationState.MIGRATION)),
        (metadata_value(21, 0, zk_migration_state=2), ZkMigrationChanged(at=AT, state=ZkMigrationState.PRE_MIGRATION)),
        (change(0, leader=-1, leader_recovery_state=0), partition_changed(leader_set=True, recovering=False)),
        (change(1, isr=[2], leader=2), partition_changed(isr=nodes(2), leader=NodeId(2), leader_set=True)),
        (change(1, replicas=[1, 2]), partition_changed(replicas=NODES)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_record_gives_its_event(record: bytes | tuple[bytes, bytes], expected: Event) -> None:
    assert one(record) == expected


def test_a_voters_record_gives_the_whole_set_and_a_zero_directory_id_is_none() -> None:
    feature = {"min_supported_version": 0, "max_supported_version": 1}
    other = {"min_supported_version": 1, "max_supported_version": 2}
    voters = [
        {"voter_id": 1, "voter_directory_id": UUID, "endpoints": LISTENERS, "kraft_version_feature": feature},
        {"voter_id": 4, "voter_directory_id": UUID[::-1], "endpoints": [LISTENER], "kraft_version_feature": other},
        {"voter_id": 2, "voter_directory_id": bytes(16), "endpoints": [], "kraft_version_feature": feature},
    ]

    event = raft(6, 0, voters=voters)

    assert isinstance(event, VotersReplaced)
    ranges = ["kraft.version 0-1", "kraft.version 1-2", "kraft.version 0-1"]
    assert [str(voter.kraft_versions) for voter in event.voters] == ranges
    assert event == VotersReplaced(
        at=AT,
        voters=(
            Voter(key=ReplicaKey(id=NodeId(1), directory_id=DirectoryId(PRINTED)), endpoints=ENDPOINTS),
            Voter(key=ReplicaKey(id=NodeId(4), directory_id=DirectoryId(REVERSED)), endpoints=(ENDPOINT,)),
            Voter(key=ReplicaKey(id=NodeId(2), directory_id=None), endpoints=()),
        ),
    )


def test_a_leader_change_of_version_1_is_read_with_its_own_schema() -> None:
    voters = [{"voter_id": node, "voter_directory_id": UUID} for node in (1, 2)]

    assert raft(2, 1, leader_id=1, voters=voters, granting_voters=voters[:1]) == LeaderChanged(
        at=AT, leader_id=NodeId(1), voter_ids=NODES, granting_voter_ids=(NodeId(1),)
    )


@pytest.mark.parametrize(("name", "api_key", "version", "fields"), EVERY_RECORD)
@settings(max_examples=30)
@given(drawn=st.data())
def test_any_record_that_kafka_could_write_is_converted_or_skipped(
    name: str, api_key: int, version: int, fields: FieldType, drawn: st.DataObject
) -> None:
    value = data(api_key, version, written(fields, drawn.draw(kafka_values(fields))))
    table = decode_records(batch([value]), base_offset=0, last_offset=0, leader_epoch=1, high_watermark=1)

    *converted, end = table.events()

    assert isinstance(end, LogAdvanced)
    assert len(converted) == (name in CONVERTERS and name not in NEEDED_TEXT)
    undefined_states = [event for event in converted if isinstance(event, Undecodable)]
    # The strategies draw states from -1, 0, 1 and 2; Kafka does not define all of them.
    assert all("state" in event.reason or "does not define" in event.reason for event in undefined_states)
    assert not (undefined_states and name in CREDENTIAL_FIELDS)


@pytest.mark.parametrize(
    ("number", "protocol"), [(0, "PLAINTEXT"), (1, "SSL"), (2, "SASL_PLAINTEXT"), (3, "SASL_SSL"), (9, None)]
)
def test_a_registered_endpoint_has_the_protocol_of_its_listener(number: int, protocol: str | None) -> None:
    """Two endpoints are equal whatever their protocols, so that it is compared by itself."""
    listener = {**LISTENER, "security_protocol": number}
    event = metadata(27, 0, controller_id=1, incarnation_id=UUID, end_points=[listener], features=[FEATURE])

    assert isinstance(event, ControllerRegistration)
    assert event.endpoints == (ENDPOINT,)
    assert [endpoint.protocol for endpoint in event.endpoints] == [protocol]
