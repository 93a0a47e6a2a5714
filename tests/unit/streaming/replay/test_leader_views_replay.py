"""What each controller says of who leads: the newest word counts, and since when it says so."""

from dataclasses import replace

from connectors.log_event import ControllerRegistered, VotersSet
from connectors.observation_event import LeaderViewPolled, NodeEndpoints
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset
from rules.model.monitoring import LeaderLog, Snapshot
from streaming.replay.probe_state import PROBE_MS
from tests.unit.streaming.replay.ledger import START, Ledger, again, apply, machine, poll, replica, voter

LOG = LeaderLog(
    start_offset=Offset(0),
    snapshot=Snapshot(end_offset=Offset(90), epoch=Epoch(1), last_contained_timestamp_ms=Millis(START)),
    tells_absence=True,
    begins_timestamp_ms=None,
)


def said(node: int, *, leader: int | None = 1, epoch: int = 1, log: LeaderLog | None = None) -> LeaderViewPolled:
    return LeaderViewPolled(
        endpoint=f"c{node}:9093",
        node=NodeId(node),
        this_cluster=True,
        leader_id=None if leader is None else NodeId(leader),
        leader_epoch=Epoch(epoch),
        log=log,
    )


def test_the_same_word_again_keeps_since_when_and_another_begins_anew() -> None:
    ledger, replay = Ledger(), machine()
    quorum = apply(replay, [ledger.row(said(1, log=LOG)), ledger.row(said(2)), ledger.row(said(2))])
    assert {name: view.since_ms - START for name, view in quorum.leader_views.items()} == {
        "c1:9093": 1_000,
        "c2:9093": 2_000,
    }
    assert quorum.leader_views["c2:9093"].observed_at_ms == START + 3_000
    assert quorum.leader_views["c1:9093"].log == LOG

    quorum = apply(again(replay.to_bytes()), [ledger.row(said(2, leader=None, epoch=2))])
    assert quorum.leader_views["c2:9093"].since_ms == START + 4_000
    assert quorum.leader_views["c2:9093"].leader_id is None
    assert quorum.leader_views["c1:9093"].log == LOG, "it is in the state"


def test_of_several_listeners_the_one_that_controllers_dial_comes_first() -> None:
    """VotersRecord and DescribeQuorum list them in any order, a registration in that of controller.listener.names."""
    ledger, replay = Ledger(), machine()
    extra, first = (Endpoint(listener=name, host="c1", port=port) for name, port in (("EXTRA", 9094), ("FIRST", 9093)))
    ledger.write(VotersSet(at=ledger.at(), voters=(replace(voter("1"), endpoints=(extra, first)),)))
    quorum = apply(replay, [ledger.read()])
    assert quorum.committed is not None
    assert quorum.committed.voters[0].endpoints == (extra, first), "nothing tells yet"

    ordered = (replace(first, protocol="SASL_SSL"), replace(extra, protocol="SSL"))
    ledger.write(ControllerRegistered(at=ledger.at(), id=NodeId(1), incarnation_id="i", endpoints=ordered))
    apply(replay, [ledger.read()])
    node = NodeEndpoints(id=NodeId(1), endpoints=(extra, first))
    quorum = apply(again(replay.to_bytes()), [ledger.row(poll(replica("1"), nodes=(node,)))])
    assert quorum.committed is not None
    assert quorum.poll is not None
    assert quorum.committed.voters[0].endpoints == (first, extra)
    assert quorum.poll.nodes[NodeId(1)] == (first, extra)
    assert [each.protocol for each in quorum.controllers[NodeId(1)].endpoints] == ["SASL_SSL", "SSL"], "in the state"


def test_a_word_that_nobody_repeats_is_forgotten() -> None:
    ledger, replay = Ledger(), machine()
    apply(replay, [ledger.row(said(1)), ledger.row(said(2))])
    quorum = apply(replay, [ledger.row(said(1), after_ms=PROBE_MS), ledger.row(said(1))])
    assert set(quorum.leader_views) == {"c1:9093"}


def test_a_view_is_no_evidence_of_who_leads() -> None:
    """Rules hold views against each other: none of them makes or breaks a leader."""
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    quorum = apply(replay, [ledger.read(), ledger.row(replace(said(2, leader=2, epoch=9)))])
    assert (quorum.leader_id, quorum.leader_epoch) == (1, 1)
    assert quorum.invariant_violations == ()
