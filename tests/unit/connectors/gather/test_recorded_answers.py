"""The recorded responses of a real quorum, and the farm's doubles that answer with them: the product reads the same."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from connectors.event import Event
from connectors.kafka.client import Address
from connectors.kafka.kafka_python import DescribeQuorumResponse, FetchResponse, FetchSnapshotResponse
from connectors.kafka.messages import (
    FetchResult,
    fetch_request,
    fetch_snapshot_request,
    parse_describe_quorum,
    parse_fetch,
    parse_fetch_snapshot,
)
from connectors.log_event import (
    BrokerChanged,
    BrokerRegistered,
    ControllerRegistered,
    LeaderChanged,
    PartitionChanged,
    SnapshotBegan,
    SnapshotEnded,
    Undecodable,
    VotersReplaced,
)
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.observation_event import QuorumPolled
from rules.model.identifiers import Endpoint, SnapshotId
from tests.bench.fleet_answers import (
    FENCED_LEADER_EPOCH,
    NODES,
    NOT_LEADER,
    Controller,
    check_recording,
    first_leader,
    later_changes,
)
from tests.bench.fleet_cluster import FarmCluster, MetadataSnapshot
from tests.bench.patched_batches import header_of, written_at
from tests.bench.recorded_answers import DESCRIBE_QUORUM, events_of, recording

CONTROLLERS = tuple(Controller(node=node, host=f"127.10{node}.200.{node}", port=40_000 + node) for node in NODES)
LEADER, EPOCH = first_leader()
LATER_MS = 1_900_000_000_000


def farm_cluster(snapshot: MetadataSnapshot | None = None) -> FarmCluster:
    return FarmCluster(7, CONTROLLERS, snapshot=snapshot, now_ms=LATER_MS)


def fetched(cluster: FarmCluster, offset: int, *, node: int = LEADER, epoch: int = EPOCH) -> FetchResult:
    """Sends the gatherer's Fetch to one controller and returns what the product reads in the answer."""
    request = fetch_request(
        cluster_id=cluster.cluster_id,
        leader_epoch=epoch,
        offset=offset,
        last_epoch=0,
        high_watermark=None,
        max_wait_ms=0,
        max_bytes=4_096,
    )
    request.API_VERSION = 18
    (answer,) = answers_of(lambda send: cluster.fetch(node, memoryview(bytes(request.encode())), 5, send))
    return parse_fetch(FetchResponse.decode(answer, version=18))


def answers_of(ask: Any) -> list[bytes]:
    answers: list[bytes] = []
    ask(lambda _correlation_id, body: answers.append(body))
    return answers


def fetched_log(cluster: FarmCluster) -> bytes:
    content, offset = b"", 0
    while records := fetched(cluster, offset).records:
        whole = [one for one in _batches(records) if one.base_offset >= offset]
        content += records[whole[0].position : whole[-1].end]
        offset = whole[-1].last_offset + 1
    return content


def _batches(records: bytes) -> list[Any]:
    return [one for one in scan(records) if isinstance(one, RecordBatch)]


def at_the_farm(event: Event) -> Event:
    """Returns a recorded event with the endpoints of the farm's controllers."""
    match event:
        case VotersReplaced(voters=voters):
            moved = tuple(replace(one, endpoints=moved_endpoints(one.key.id, one.endpoints)) for one in voters)
            return replace(event, voters=moved)
        case ControllerRegistered(id=node, endpoints=endpoints):
            return replace(event, endpoints=moved_endpoints(node, endpoints))
        case _:
            return event


def moved_endpoints(node: int, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    if node not in NODES:
        return endpoints
    controller = CONTROLLERS[node - 1]
    return tuple(replace(one, host=controller.host, port=controller.port) for one in endpoints)


def test_recording_is_what_the_lab_and_kafkas_dump_tool_reported() -> None:
    check_recording()


def test_recording_holds_elections_voter_changes_and_a_recovery() -> None:
    events = recording().events()

    assert not [event for event in events if isinstance(event, Undecodable)]
    leaders = [event.leader_id for event in events if isinstance(event, LeaderChanged)]
    assert len(leaders) >= 2
    assert len(set(leaders)) >= 2
    assert [len(event.voters) for event in events if isinstance(event, VotersReplaced)][-3:] == [3, 4, 3]
    recovering = [event.recovering for event in events if isinstance(event, PartitionChanged)]
    assert recovering.index(True) < recovering.index(False)
    brokers = {event.id for event in events if isinstance(event, BrokerRegistered)}
    assert brokers == set(recording().facts.brokers)
    assert {event.fenced for event in events if isinstance(event, BrokerChanged)} >= {True, False}


def test_recorded_snapshot_is_complete() -> None:
    events = list(decode_snapshot_piece(recording().snapshot, end_offset=9, epoch=1).events())

    assert isinstance(events[0], SnapshotBegan)
    assert isinstance(events[-1], SnapshotEnded)
    assert not [event for event in events if isinstance(event, Undecodable)]


def test_product_reads_the_same_events_from_the_farm_as_from_the_recording() -> None:
    log = fetched_log(farm_cluster())

    end = _batches(log)[-1].last_offset + 1
    first = [one for one in recording().batches if header_of(one).base_offset < end]
    # The farm serves the log as if it had been written later.
    later_ms = _batches(log)[0].base_timestamp - header_of(first[0]).base_timestamp
    recorded = b"".join(written_at(one, header_of(one).base_timestamp + later_ms) for one in first)
    read, expected = events_of(log), [at_the_farm(event) for event in events_of(recorded)]
    assert len(expected) > 40
    assert read == expected
    assert read != events_of(recorded), "the endpoints are the farm's"
    for ours, theirs in zip(batches_of(log), batches_of(recorded), strict=True):
        with_endpoints = any(isinstance(event, VotersReplaced | ControllerRegistered) for event in events_of(theirs))
        assert ours == theirs or with_endpoints, "every other batch is served as it was recorded"


def batches_of(log: bytes) -> list[bytes]:
    return [log[one.position : one.end] for one in _batches(log)]


def test_leader_reports_the_recorded_quorum_at_the_farms_endpoints() -> None:
    cluster = farm_cluster()

    def polled(body: bytes) -> QuorumPolled:
        response = DescribeQuorumResponse.decode(body, version=2)
        return parse_describe_quorum(response, cluster_id=None, address=Address("farm", 1))

    ours = polled(cluster.describe_quorum(LEADER, LATER_MS))
    theirs = next(
        polled(one.body)
        for one in recording().of(DESCRIBE_QUORUM)
        if one.step == "idle" and one.decode().topics[0].partitions[0].error_code == 0
    )
    assert (ours.leader_id, ours.leader_epoch, ours.high_watermark) == (LEADER, EPOCH, cluster.log_end)
    assert [voter.key for voter in ours.voters] == [voter.key for voter in theirs.voters]
    assert [observer.key for observer in ours.observers] == [observer.key for observer in theirs.observers]
    assert {voter.last_fetch_ms for voter in ours.voters} == {LATER_MS}
    assert ours.nodes == tuple(replace(one, endpoints=moved_endpoints(one.id, one.endpoints)) for one in theirs.nodes)


@pytest.mark.parametrize(
    ("node", "epoch", "error"), [(None, EPOCH, NOT_LEADER), (LEADER, EPOCH - 1, FENCED_LEADER_EPOCH)]
)
def test_refused_fetch_names_the_leader(node: int | None, epoch: int, error: int) -> None:
    follower = next(one for one in NODES if one != LEADER)

    result = fetched(farm_cluster(), 0, node=node or follower, epoch=epoch)

    controller = CONTROLLERS[LEADER - 1]
    assert (result.error, result.leader_id, result.leader_epoch) == (error, LEADER, EPOCH)
    assert result.leader == Address(controller.host, controller.port)


def test_snapshot_of_a_double_is_read_in_pieces() -> None:
    content = recording().snapshot
    cluster = farm_cluster(MetadataSnapshot(content=content, end_offset=500, epoch=3))
    named = fetched(cluster, 0, epoch=3).snapshot
    assert named == SnapshotId(end_offset=500, epoch=3)

    read = b""
    while len(read) < len(content):
        request = fetch_snapshot_request(
            cluster_id=None, leader_epoch=3, snapshot=named, position=len(read), max_bytes=3_000
        )
        request.API_VERSION = 1
        sent = memoryview(bytes(request.encode()))
        (answer,) = answers_of(lambda send, sent=sent: cluster.fetch_snapshot(sent, 5, send))
        piece = parse_fetch_snapshot(FetchSnapshotResponse.decode(answer, version=1))
        assert (piece.position, piece.size) == (len(read), len(content))
        read += piece.records
    assert read == content


def test_changes_written_later_are_the_recorded_ones_at_another_time() -> None:
    changes = later_changes(CONTROLLERS)

    events = [event for one in changes for event in events_of(written_at(one, LATER_MS))]
    assert not [event for event in events if isinstance(event, Undecodable)]
    assert {event.at.timestamp_ms // 10_000 for event in events if hasattr(event, "at")} == {LATER_MS // 10_000}
    assert {len(event.voters) for event in events if isinstance(event, VotersReplaced)} == {3, 4}
    assert {True, False} <= {event.recovering for event in events if isinstance(event, PartitionChanged)}


def test_elections_and_fenced_brokers_continue_the_log() -> None:
    cluster = farm_cluster()
    begin = cluster.log_end
    for _ in range(2 * len(later_changes(CONTROLLERS))):
        cluster.elect(LATER_MS)
    for fenced in (True, False):
        cluster.fence(fenced, LATER_MS)
    cluster.commit()

    elected = EPOCH + 2 * len(later_changes(CONTROLLERS))
    leader = NODES[elected % len(NODES)]
    offset, events = begin, []
    while records := fetched(cluster, offset, node=leader, epoch=elected).records:
        whole = _batches(records)
        events += events_of(records[: whole[-1].end])
        offset = whole[-1].last_offset + 1

    assert offset == cluster.log_end
    assert not [event for event in events if isinstance(event, Undecodable)]
    epochs = [event.at.leader_epoch for event in events if isinstance(event, LeaderChanged)]
    assert all(after == before + 1 for before, after in pairwise(epochs))
    assert epochs[-1] == elected
    broker = recording().facts.brokers[0]
    last = [event for event in events if isinstance(event, BrokerChanged)][-2:]
    assert [(event.id, event.fenced) for event in last] == [(broker, True), (broker, False)]
