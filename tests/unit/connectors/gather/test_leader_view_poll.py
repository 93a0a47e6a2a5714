"""The leader view poll: each controller's leader and epoch, the start of the leader's log, few requests."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from connectors.gather.leader_view_poll import LeaderViewPoll
from connectors.gather.node_directory import NodeDirectory
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.schemas import FetchSnapshotRequest
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import VotersReplaced
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import RecordPosition, Voter
from rules.model.monitoring import LeaderLog, ObservationSource, Reason, Snapshot
from streaming.replay.probe_state import FAILURE_MS
from tests.unit.connectors.gather.scripted_cluster import (
    C1,
    C2,
    C3,
    RecordedOutput,
    Script,
    ScriptedClient,
    fails_with,
    run_until,
)
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer, piece_answer
from tests.unit.connectors.metadata.metadata_bytes import batch, control, noop
from tests.unit.connectors.metadata.metadata_record_schemas import written

B4 = Address("c4", 9093)
AT = RecordPosition(offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=Millis(1))
AT_C1 = Endpoint(listener="CONTROLLER", host="c1", port=9093)
TIMESTAMP = 1_790_000_000_000
VOTERS = (
    Voter(
        key=ReplicaKey(id=NodeId(1), directory_id=DirectoryId("AAECAwQFBgcICQoLDA0ODw")),
        endpoints=(Endpoint(listener="CONTROLLER", host="c1", port=9093),),
    ),
)
VOTERS_RECORD = written(
    record_schemas().control[6].versions[0][0],
    {
        "version": 0,
        "voters": [
            {
                "voter_id": 1,
                "voter_directory_id": bytes(range(16)),
                "endpoints": [{"name": "CONTROLLER", "host": "c1", "port": 9093}],
                "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
            }
        ],
    },
)


@pytest.fixture
def loop(simulated_time_loop: EventLoop) -> EventLoop:
    """The tests use no sockets, so time advances only when every coroutine waits."""
    return simulated_time_loop


def client(loop: EventLoop, scripts: dict[Address, Script], *, version: int = 18) -> ScriptedClient:
    return ScriptedClient(loop, scripts, source=ObservationSource.LEADER_VIEW, version=version)


def leaders(output: RecordedOutput) -> dict[str, tuple[int | None, int | None, int | None]]:
    """Node, leader and epoch, by endpoint."""
    return {one.endpoint: (one.node, one.leader_id, one.leader_epoch) for one in output.views}


def follower_response(leader: int, *, epoch: int = 3) -> Script:
    """A controller that is not the leader and reports this leader."""

    def script(request: Any) -> Any:
        sent_epoch = request.topics[0].partitions[0].current_leader_epoch
        error = 74 if sent_epoch < epoch else 75 if sent_epoch > epoch else 6
        return fetch_answer(error=error, leader=leader, epoch=epoch)

    return script


def leader_response(
    node: int, *, epoch: int = 3, snapshot: int | None = None, records: bytes = b"", voters: bool = True
) -> Script:
    """A leader; its snapshot's header contains TIMESTAMP, and voters unless the quorum is static."""

    def script(request: Any) -> Any:
        if isinstance(request, FetchSnapshotRequest):
            return header(request, voters=voters)
        sent_epoch = request.topics[0].partitions[0].current_leader_epoch
        if sent_epoch != epoch:
            return fetch_answer(
                error=ErrorCode.FENCED_LEADER_EPOCH if sent_epoch < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH,
                leader=node,
                epoch=epoch,
            )
        snapshot_id = None if snapshot is None else PARTITION.SnapshotId(end_offset=snapshot, epoch=2)
        return fetch_answer(leader=node, epoch=epoch, snapshot_id=snapshot_id, records=records, log_start_offset=0)

    return script


def header(request: Any, *, voters: bool) -> Any:
    header_record = b"\0\0" + TIMESTAMP.to_bytes(8, "big") + b"\0"
    content = batch([control(3, header_record), *([control(6, VOTERS_RECORD)] if voters else ())])
    assert request.topics[0].partitions[0].position == 0
    return piece_answer(content + b"incomplete batch", size=len(content) + 500)


def node_directory(*node_ids: int, configured: tuple[Address, ...] = ()) -> NodeDirectory:
    nodes = NodeDirectory(configured=configured, cluster_id="x")
    voters = tuple(
        Voter(key=ReplicaKey(id=NodeId(node)), endpoints=(Endpoint(listener="CONTROLLER", host=f"c{node}", port=9093),))
        for node in node_ids
    )
    if voters:
        nodes.update_from_event(VotersReplaced(at=AT, voters=voters))
    return nodes


def run_poll(
    loop: EventLoop,
    controllers: ScriptedClient,
    nodes: NodeDirectory,
    until: Callable[[RecordedOutput], bool],
    *,
    interval_ms: int = 20,
    within_s: float = 8,
) -> RecordedOutput:
    output = RecordedOutput()
    poll = LeaderViewPoll(controllers, nodes, output, interval_ms=interval_ms)  # type: ignore[arg-type]
    run_until(loop, poll.run(), lambda: until(output), within_s=within_s)
    return output


def test_each_controller_is_queried_once_and_reports_its_leader(loop: EventLoop) -> None:
    nodes = node_directory(1, 2, 3)
    nodes.leader_epoch = 3
    scripts = {C1: follower_response(2), C2: leader_response(2), C3: follower_response(2, epoch=2)}
    controllers = client(loop, scripts)
    output = run_poll(loop, controllers, nodes, lambda output: len(output.views) >= 3, interval_ms=60_000)

    assert leaders(output) == {"c1:9093": (1, 2, 3), "c2:9093": (2, 2, 3), "c3:9093": (3, 2, 2)}
    assert sorted(controllers.positions) == [(one, 3, 0, 0) for one in (C1, C2, C3)]
    assert {request.cluster_id for _, request in controllers.sent} == {"x"}
    assert {one.endpoint for one in output.views if one.log is not None} == {"c2:9093"}


def test_controller_without_a_leader_is_recorded(loop: EventLoop) -> None:
    output = run_poll(
        loop,
        client(loop, {C1: follower_response(-1, epoch=8)}),
        node_directory(1),
        lambda output: bool(output.views),
    )
    assert leaders(output) == {"c1:9093": (1, None, 8)}


@pytest.mark.parametrize("known_epoch", [0, 7])
def test_leader_is_queried_again_with_its_own_epoch(loop: EventLoop, known_epoch: int) -> None:
    nodes = node_directory(1)
    nodes.leader_epoch = known_epoch
    controllers = client(loop, {C1: leader_response(1, epoch=5)})
    output = run_poll(loop, controllers, nodes, lambda output: bool(output.views), interval_ms=60_000)
    assert [epoch for _, epoch, *_ in controllers.positions] == [known_epoch, 5]
    assert leaders(output) == {"c1:9093": (1, 1, 5)}
    assert output.views[0].log is not None


def test_snapshot_header_is_fetched_once_per_snapshot(loop: EventLoop) -> None:
    nodes = node_directory(1)
    nodes.leader_epoch = 3
    controllers = client(loop, {C1: leader_response(1, snapshot=90)})
    output = run_poll(loop, controllers, nodes, lambda output: len(output.views) >= 3)

    snapshot = Snapshot(
        end_offset=Offset(90), epoch=Epoch(2), last_contained_timestamp_ms=Millis(TIMESTAMP), voters=VOTERS
    )
    log = LeaderLog(start_offset=Offset(0), snapshot=snapshot, tells_absence=True, begins_timestamp_ms=None)
    assert {one.log for one in output.views} == {log}
    (sent,) = (request for _, request in controllers.sent if isinstance(request, FetchSnapshotRequest))
    assert (sent.cluster_id, sent.topics[0].partitions[0].current_leader_epoch) == ("x", 3)

    controllers.scripts[C1] = leader_response(1, snapshot=120)
    second = run_poll(loop, controllers, nodes, lambda output: bool(output.views))
    assert second.views[0].log == replace(log, snapshot=replace(snapshot, end_offset=Offset(120)))

    controllers.scripts[C1] = leader_response(1, snapshot=150, voters=False)
    static = run_poll(loop, controllers, nodes, lambda output: bool(output.views))
    assert static.views[0].log == replace(log, snapshot=replace(snapshot, end_offset=Offset(150), voters=None))


@pytest.mark.parametrize(("version", "tells_absence"), [(18, True), (16, True), (15, False), (13, False)])
def test_missing_snapshot_is_reported_only_by_a_kafka_that_reports_snapshots(
    loop: EventLoop, version: int, tells_absence: bool
) -> None:
    nodes = node_directory(1)
    nodes.leader_epoch = 3
    controllers = client(loop, {C1: leader_response(1, records=batch([noop()], timestamp=TIMESTAMP))}, version=version)
    output = run_poll(loop, controllers, nodes, lambda output: bool(output.views))
    assert output.views[0].log == LeaderLog(
        start_offset=Offset(0), snapshot=None, tells_absence=tells_absence, begins_timestamp_ms=Millis(TIMESTAMP)
    )


def test_node_of_another_cluster_is_a_view_and_a_timeout_a_failure(loop: EventLoop) -> None:
    scripts = {C1: fails_with(Reason.WRONG_CLUSTER), C2: fails_with(Reason.TIMED_OUT), C3: follower_response(2)}
    output = run_poll(loop, client(loop, scripts), node_directory(1, 2, 3), lambda output: len(output.views) > 5)
    assert {one.endpoint: one.this_cluster for one in output.views} == {"c1:9093": False, "c3:9093": True}
    failures = {(one.source, one.node, one.endpoint, one.reason, one.detail) for one in output.failures}
    assert failures == {(ObservationSource.LEADER_VIEW, 2, "c2:9093", Reason.TIMED_OUT, "detail")}


@pytest.mark.parametrize("reason", [Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL, Reason.DENIED])
def test_a_login_that_fails_is_repeated_before_its_failure_expires(loop: EventLoop, reason: Reason) -> None:
    controllers = client(loop, {C1: follower_response(1), C2: fails_with(reason)})

    output = run_poll(loop, controllers, node_directory(1, 2), lambda _: False, interval_ms=10_000, within_s=180)
    # The first denial may come before another controller has answered.
    assert [one.reason for one in output.failures][:5] == [reason] * 5
    assert 180_000 / len(output.failures) < FAILURE_MS


@pytest.mark.parametrize("reason", [Reason.REFUSED, Reason.UNRESOLVABLE])
def test_what_the_probe_reports_is_no_failure_of_the_view(loop: EventLoop, reason: Reason) -> None:
    controllers = client(loop, {C1: follower_response(1), C2: fails_with(reason)})
    output = run_poll(loop, controllers, node_directory(1, 2), lambda output: len(output.views) > 5)
    assert output.failures == []


def test_what_every_controller_denies_is_no_failure_of_one(loop: EventLoop) -> None:
    controllers = client(loop, {C1: fails_with(Reason.DENIED), C2: fails_with(Reason.DENIED)})
    output = run_poll(loop, controllers, node_directory(1, 2), lambda _: len(controllers.queried) > 5, within_s=100)
    assert output.failures == []


@pytest.mark.parametrize("reason", [Reason.UNSUPPORTED, Reason.DENIED])
def test_broker_and_denying_controller_are_not_polled_again_soon(loop: EventLoop, reason: Reason) -> None:
    controllers = client(loop, {C1: follower_response(1), B4: fails_with(reason)})
    run_poll(loop, controllers, node_directory(1, configured=(B4,)), lambda output: len(output.views) > 5)
    assert controllers.queried.count(B4) == 1


def test_unreported_address_is_polled_rarely_once_the_controllers_are_known(loop: EventLoop) -> None:
    nodes = node_directory(1, configured=(B4,))
    nodes.leader_epoch = 3
    controllers = client(loop, {C1: follower_response(1), B4: follower_response(1)})
    output = run_poll(loop, controllers, nodes, lambda output: len(output.views) > 5)
    assert controllers.queried.count(B4) == 1
    assert leaders(output)[str(B4)][0] is None


def run_with_alias(loop: EventLoop, answers_as: list[int]) -> tuple[NodeDirectory, RecordedOutput, ScriptedClient]:
    """Polls for three minutes while these nodes answer, one after the other, at a configured address of no record."""
    nodes = node_directory(1, 2, configured=(B4,))
    nodes.leader_epoch = 3
    controllers = client(loop, {C1: leader_response(1), C2: follower_response(1), B4: follower_response(1)})

    def switch(output: RecordedOutput) -> bool:
        asked = len(controllers.disconnected)
        controllers.nodes[B4] = answers_as[min(asked, len(answers_as) - 1)]
        return False

    output = run_poll(loop, controllers, nodes, switch, interval_ms=10_000, within_s=180)
    return nodes, output, controllers


def test_a_controller_that_answers_at_another_address_is_that_controller(loop: EventLoop) -> None:
    nodes, output, controllers = run_with_alias(loop, [2])

    views = [one for one in output.views if one.endpoint == str(B4)]
    assert {one.node for one in views} == {2}
    assert nodes.node_at(B4) == 2
    assert controllers.queried.count(B4) == controllers.queried.count(C2), "as often as a recorded one"
    assert len(controllers.disconnected) == 3, "identified once a minute, on a connection of its own"
    assert NodeDirectory(configured=(B4,), cluster_id="x", known_endpoints=nodes.known_endpoints).node_at(B4) == 2


def test_an_address_at_which_several_controllers_answer_is_none_of_them(loop: EventLoop) -> None:
    nodes, output, _ = run_with_alias(loop, [2, 1, 1])

    assert [one.node for one in output.views if one.endpoint == str(B4)][-1] is None
    assert nodes.node_at(B4) is None


def test_the_leader_is_identified_by_its_answer(loop: EventLoop) -> None:
    nodes = node_directory(1, configured=(B4,))
    nodes.leader_epoch = 3
    controllers = client(loop, {C1: leader_response(1), B4: leader_response(1)})
    run_poll(loop, controllers, nodes, lambda output: nodes.node_at(B4) == 1)
    assert nodes.node_at(B4) == 1


@pytest.mark.parametrize("answer", [follower_response(1, epoch=4), follower_response(2)])
def test_unreported_address_that_disagrees_is_polled_as_often_as_the_controllers(
    loop: EventLoop, answer: Script
) -> None:
    nodes = node_directory(1, configured=(B4,))
    nodes.leader_epoch, nodes.leader = 3, C1
    controllers = client(loop, {C1: follower_response(1), B4: answer})
    run_poll(loop, controllers, nodes, lambda output: len(output.views) > 5)
    assert controllers.queried.count(B4) > 1


def test_configured_addresses_are_polled_before_the_voters_are_known(loop: EventLoop) -> None:
    nodes = node_directory(configured=(C1,))
    controllers = client(loop, {C1: follower_response(1)})

    def voter_is_known(output: RecordedOutput) -> bool:
        if output.views:
            nodes.update_from_event(
                VotersReplaced(at=AT, voters=(Voter(key=ReplicaKey(id=NodeId(1)), endpoints=(AT_C1,)),))
            )
        return any(one.node is not None for one in output.views)

    output = run_poll(loop, controllers, nodes, voter_is_known, interval_ms=60_000)
    assert [one.node for one in output.views] == [None, 1], "polled again at once when the voter is known"
