"""Two quorums with one cluster id: the gatherer keeps to the one that it followed, and reports the other one."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.leader_view_poll import LeaderViewPoll
from connectors.gather.log_follower import LogFollower
from connectors.gather.node_directory import NodeDirectory, endpoints_json, stored_endpoints
from connectors.gather.quorum_poll import QuorumPoll
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.messages import parse_describe_quorum
from rules.model.identifiers import ReplicaKey
from rules.model.monitoring import ObservationSource, Reason
from rules.model.replica import Poll
from tests.unit.connectors.gather.log_bytes import batch
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
from tests.unit.connectors.kafka.kafka_answers import PARTITION, fetch_answer, quorum_answer, replica_row

ADDRESSES = (C1, C2, C3)
OWN_LOG, OTHER_LOG = batch(0, 3, epoch=5), batch(0, 2, epoch=1)


@pytest.fixture
def loop(simulated_time_loop: EventLoop) -> EventLoop:
    """The tests use no sockets, so time advances only when every coroutine waits."""
    return simulated_time_loop


def own(_: Any = None) -> Any:
    """The answer of the followed quorum's leader to DescribeQuorum."""
    return quorum_answer(leader=2, epoch=5, voters=[replica_row(node, bytes([node] * 16)) for node in (1, 2, 3)])


def other(_: Any = None, *, epoch: int = 1) -> Any:
    """That of controller 1, whose disk was formatted with --standalone."""
    return quorum_answer(leader=1, epoch=epoch, voters=[replica_row(1, bytes([9] * 16))])


def polled(answer: Any, address: Address = C2) -> Poll:
    return parse_describe_quorum(answer, cluster_id="x", address=address)


def directory() -> NodeDirectory:
    """The nodes after the followed quorum's leader was polled."""
    nodes = NodeDirectory(configured=ADDRESSES, cluster_id="x")
    nodes.update_from_event(polled(own()))
    return nodes


def leads(node: int, log: bytes, *, epoch: int, end: int) -> Script:
    """A leader; a fetch beyond its log, or of another epoch, diverges."""

    def script(request: Any) -> Any:
        partition = request.topics[0].partitions[0]
        if partition.current_leader_epoch != epoch:
            error = 74 if partition.current_leader_epoch < epoch else 75
            return fetch_answer(error=error, leader=node, epoch=epoch)
        if partition.fetch_offset > end or partition.last_fetched_epoch > epoch:
            diverging = PARTITION.EpochEndOffset(epoch=epoch, end_offset=end)
            return fetch_answer(leader=node, epoch=epoch, high_watermark=end, diverging_epoch=diverging)
        records = log if partition.fetch_offset == 0 else b""
        return fetch_answer(leader=node, epoch=epoch, high_watermark=end, records=records, log_start_offset=0)

    return script


def test_answer_of_the_other_quorum_is_no_poll_even_in_a_later_epoch(loop: EventLoop) -> None:
    scripts = {
        C1: lambda _: other(epoch=9),
        C2: fails_with(Reason.REFUSED),
        C3: lambda _: quorum_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER),
    }
    client, output, nodes = ScriptedClient(loop, scripts, ObservationSource.QUORUM), RecordedOutput(), directory()
    poll = QuorumPoll(client, nodes, output, interval_ms=100)  # type: ignore[arg-type]

    run_until(loop, poll.run(), lambda: len(output.failures) > 6)

    assert output.polls == []
    assert output.reasons(C1) == {Reason.WRONG_CLUSTER}
    assert nodes.candidates() == (C2, C3), "the log is not looked for there"

    scripts[C2] = own
    run_until(loop, poll.run(), lambda: bool(output.polls))
    assert {each.leader_id for each in output.polls} == {2}


@pytest.mark.parametrize("other_epoch", [1, 9])
def test_log_of_the_other_quorum_is_not_read(loop: EventLoop, other_epoch: int) -> None:
    """The other leader answers at once, the own one later."""
    scripts = {
        C1: leads(1, OTHER_LOG, epoch=other_epoch, end=2),
        C2: leads(2, OWN_LOG + batch(3, 1, epoch=5), epoch=5, end=4),
        C3: fails_with(Reason.REFUSED),
    }
    client = ScriptedClient(loop, scripts, delay_s={C2: 0.05}, quorums={C1: lambda _: other(), C2: own})
    output, nodes = RecordedOutput(), directory()
    follower = LogFollower(client, nodes, output, start=FetchPosition(offset=3, epoch=5))  # type: ignore[arg-type]

    run_until(loop, follower.run(), lambda: output.empty_rows > 1)

    assert output.log == b""
    assert Reason.METADATA_LOST not in {each.reason for each in output.failures}
    assert (nodes.leader, follower.position.offset) == (C2, 3)


@pytest.mark.parametrize("follows", [other, own])
def test_log_of_a_quorum_that_is_followed_instead_is_read_from_its_start(
    loop: EventLoop, follows: Callable[[], Any]
) -> None:
    """It is longer than what was read and has the same epoch: no fetch diverges. It is not, if the own one is back."""
    new = OWN_LOG + batch(3, 7, epoch=5)
    client = ScriptedClient(
        loop, {C2: leads(2, OWN_LOG, epoch=5, end=3), **dict.fromkeys((C1, C3), fails_with(Reason.REFUSED))}
    )
    output, nodes = RecordedOutput(), directory()
    follower = LogFollower(client, nodes, output)  # type: ignore[arg-type]
    run_until(loop, follower.run(), lambda: output.log == OWN_LOG)
    client.scripts[C2] = leads(2, new, epoch=5, end=10)

    nodes.gather_another_quorum()
    nodes.update_from_event(polled(follows()))
    run_until(loop, follower.run(), lambda: output.log.endswith(new), within_s=2)

    lost = [each.reason for each in output.failures if each.reason is Reason.METADATA_LOST]
    if follows is other:
        assert (output.log, lost) == (OWN_LOG + new, [Reason.METADATA_LOST])
    else:
        assert (output.log, lost) == (OWN_LOG, [])


def test_voters_that_another_controller_leads_are_in_its_view(loop: EventLoop) -> None:
    scripts = {
        C1: leads(1, OTHER_LOG, epoch=1, end=2),
        C2: leads(2, OWN_LOG, epoch=5, end=3),
        C3: lambda _: fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=2, epoch=5, at=C2),
    }
    client = ScriptedClient(loop, scripts, ObservationSource.LEADER_VIEW, quorums={C1: other, C2: own})
    output, nodes = RecordedOutput(), directory()
    nodes.leader, nodes.leader_epoch = C2, 5
    views = LeaderViewPoll(client, nodes, output, interval_ms=20)  # type: ignore[arg-type]

    run_until(loop, views.run(), lambda: len(output.views) >= 3)

    found = {view.endpoint: view.other_voters for view in output.views}
    assert found == {str(C1): tuple(polled(other(), C1).voter_keys), str(C2): (), str(C3): ()}
    assert {*nodes.others} == {C1}


def test_quorum_that_most_controllers_follow_is_gathered(loop: EventLoop) -> None:
    """All disks were formatted again: the former voters exist no more."""
    follows = fetch_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=1, epoch=1, at=C1)
    scripts = {C1: leads(1, OTHER_LOG, epoch=1, end=2), C2: lambda _: follows, C3: fails_with(Reason.REFUSED)}
    client = ScriptedClient(loop, scripts, ObservationSource.LEADER_VIEW, quorums={C1: other})
    output, nodes = RecordedOutput(), directory()
    nodes.leader = C2
    assert not nodes.leads_this_quorum(C1, polled(other(), C1))
    views = LeaderViewPoll(client, nodes, output, interval_ms=20)  # type: ignore[arg-type]

    run_until(loop, views.run(), lambda: not nodes.others)

    assert nodes.leads_this_quorum(C1, polled(other(), C1))


def test_without_views_the_other_quorum_is_followed_after_a_minute(loop: EventLoop) -> None:
    """Polls only, or without CLUSTER_ACTION: no controller tells which leader it follows."""
    refused = fails_with(Reason.REFUSED)
    client = ScriptedClient(loop, {C1: other, C2: refused, C3: refused}, ObservationSource.QUORUM)
    output, began = RecordedOutput(), loop.now()
    poll = QuorumPoll(client, directory(), output, interval_ms=1_000)  # type: ignore[arg-type]

    run_until(loop, poll.run(), lambda: bool(output.polls), within_s=90)

    assert 60 < loop.now() - began < 63
    assert output.reasons(C1) == {Reason.WRONG_CLUSTER}


def test_restarted_gatherer_knows_the_quorum() -> None:
    text = endpoints_json().dump_json(directory().known_endpoints).decode()
    nodes = NodeDirectory(configured=ADDRESSES, cluster_id="x", known_endpoints=stored_endpoints(text))

    assert nodes.leads_this_quorum(C2, polled(own()))
    assert not nodes.leads_this_quorum(C1, polled(other(), C1))
    assert [*nodes.others.values()] == [frozenset[ReplicaKey](polled(other(), C1).voter_keys)]


@pytest.mark.parametrize(("epoch", "same"), [(1, False), (999_999, False), (1_000_000, True), (2_000_007, True)])
def test_a_static_quorum_of_the_voters_that_were_left_is_the_same_one(epoch: int, same: bool) -> None:
    """What `rescue apply --lost` leaves begins a million epochs later; a disk that was formatted alone does not."""
    nodes = NodeDirectory(configured=ADDRESSES, cluster_id="x")

    def of(epoch: int, *ids: int) -> Poll:
        poll = polled(quorum_answer(leader=ids[0], epoch=epoch, voters=[replica_row(node) for node in ids]))
        voters = (replace(row, key=replace(row.key, directory_id=None)) for row in poll.voters)
        return replace(poll, voters=tuple(voters))

    nodes.update_from_event(of(5, 1, 2, 3))
    assert nodes.leads_this_quorum(C2, of(epoch, 2)) is same
    assert not nodes.leads_this_quorum(C2, of(epoch, 7))
    if same:
        nodes.update_from_event(of(epoch, 2))
        assert nodes.leads_this_quorum(C2, of(epoch, 1, 2, 3)), "it has three voters again"


def alone(node: int, epoch: int) -> Script:
    """The answer to DescribeQuorum of a controller that was formatted with --standalone."""
    return lambda _: quorum_answer(leader=node, epoch=epoch, voters=[replica_row(node, bytes([node] * 16))])


THREE = {C1: (1, 1), C2: (2, 1), C3: (3, 3)}
"""Node and epoch of three controllers, each of which leads itself alone."""


def three_leaders(loop: EventLoop, source: ObservationSource) -> ScriptedClient:
    logs = {at: leads(node, batch(0, 2, epoch=epoch), epoch=epoch, end=2) for at, (node, epoch) in THREE.items()}
    quorums = {at: alone(node, epoch) for at, (node, epoch) in THREE.items()}
    return ScriptedClient(loop, logs if source is not ObservationSource.QUORUM else quorums, source, quorums=quorums)


@pytest.mark.parametrize("polled_first", [True, False])
def test_log_and_polls_are_of_one_of_three_quorums(loop: EventLoop, polled_first: bool) -> None:
    """The log is looked for in the newest epoch, and the poll takes the first answer."""
    nodes = NodeDirectory(configured=ADDRESSES, cluster_id="x")
    polls, log = RecordedOutput(), RecordedOutput()
    poll = QuorumPoll(three_leaders(loop, ObservationSource.QUORUM), nodes, polls, interval_ms=100)  # type: ignore[arg-type]
    follower = LogFollower(three_leaders(loop, ObservationSource.LOG), nodes, log)  # type: ignore[arg-type]
    if polled_first:
        run_until(loop, poll.run(), lambda: bool(polls.polls))
    run_until(loop, follower.run(), lambda: bool(log.log))
    run_until(loop, poll.run(), lambda: bool(polls.polls))

    (followed,) = {each.leader_id for each in polls.polls}
    assert log.log == batch(0, 2, epoch=3 if followed == 3 else 1)
    assert Reason.METADATA_LOST not in {each.reason for each in log.failures}


def test_none_of_three_quorums_takes_over_from_the_gathered_one(loop: EventLoop) -> None:
    nodes, output = NodeDirectory(configured=ADDRESSES, cluster_id="x"), RecordedOutput()
    nodes.update_from_event(polled(alone(1, 1)(None), C1))
    nodes.leader, nodes.leader_epoch = C1, 1
    views = LeaderViewPoll(three_leaders(loop, ObservationSource.LEADER_VIEW), nodes, output, interval_ms=20)  # type: ignore[arg-type]

    run_until(loop, views.run(), lambda: len(output.views) > 12)

    assert {*nodes.others} == {C2, C3}
    assert nodes.leads_this_quorum(C1, polled(alone(1, 1)(None), C1))
    assert {view.endpoint for view in output.views if view.other_voters} == {str(C2), str(C3)}
    assert all(view.log is None for view in output.views if view.other_voters), "it is another quorum's log"
