"""Leader views: the newest answer of each controller counts, and since when it is the same."""

from dataclasses import replace

import pytest

from connectors.observations.log_event import VotersReplaced
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset
from rules.model.membership import ControllerRegistration
from rules.model.monitoring import LeaderLog, Snapshot
from tests.present import present
from tests.scripts.log_script import (
    START,
    LogScript,
    again,
    apply,
    begun,
    endpoint,
    machine,
    poll,
    replica,
    view,
    voter,
)

SNAPSHOT = Snapshot(end_offset=Offset(90), epoch=Epoch(1), last_contained_timestamp_ms=Millis(START))
LOG = LeaderLog(
    start_offset=Offset(0),
    snapshot=SNAPSHOT,
    tells_absence=True,
    begins_timestamp_ms=None,
)


def test_the_listener_that_controllers_dial_is_the_first_endpoint() -> None:
    """VotersRecord and DescribeQuorum have any order, a registration that of controller.listener.names."""
    script, replay = LogScript(), machine()
    extra, first = (Endpoint(listener=name, host="c1", port=port) for name, port in (("EXTRA", 9094), ("FIRST", 9093)))
    script.write(VotersReplaced(at=script.at(), voters=(replace(voter("1"), endpoints=(extra, first)),)))
    quorum = apply(replay, [script.read()])
    assert present(quorum.committed).voters[0].endpoints == (extra, first), "no registration is known yet"

    ordered = (replace(first, protocol="SASL_SSL"), replace(extra, protocol="SSL"))
    script.write(ControllerRegistration(at=script.at(), id=NodeId(1), incarnation_id="i", endpoints=ordered))
    apply(replay, [script.read()])
    listed = {NodeId(1): (extra, first)}
    quorum = apply(again(replay.to_bytes()), [script.row(poll(replica("1"), nodes=listed))])
    assert quorum.committed is not None
    assert present(quorum.committed).voters[0].endpoints == (first, extra)
    assert present(quorum.poll).nodes[NodeId(1)] == (first, extra)
    assert [each.protocol for each in quorum.controllers[NodeId(1)].endpoints] == ["SASL_SSL", "SSL"], "in the state"


def test_endpoints_are_in_the_order_of_the_nodes_own_registration_else_of_the_lowest_registered_one() -> None:
    script, replay = LogScript(), machine()
    listeners = [[Endpoint(listener=name, host=f"c{node}", port=1) for name in "AB"] for node in (1, 2, 3)]
    voters = (replace(voter(f"{node}"), endpoints=(b, a)) for node, (a, b) in enumerate(listeners, 1))
    script.write(VotersReplaced(at=script.at(), voters=tuple(voters)))
    for node, (a, b) in ((2, reversed(listeners[1])), (1, listeners[0])):
        script.write(ControllerRegistration(at=script.at(), id=NodeId(node), incarnation_id="i", endpoints=(a, b)))
    nodes = {NodeId(node): (b, a) for node, (a, b) in enumerate(listeners, 1)}
    quorum = apply(replay, [script.read(), script.row(poll(replica("1"), nodes=nodes))])

    committed = {each.key.id: each.endpoints for each in present(quorum.committed).voters}
    for found in (committed, present(quorum.poll).nodes):
        assert ["".join(each.listener for each in found[NodeId(node)]) for node in (1, 2, 3)] == ["AB", "BA", "AB"]


@pytest.mark.parametrize(
    ("end_offset", "of_snapshot", "port"),
    [
        (6, ("1-a", "2-b"), 9999),
        (4, ("1-a", "2-b"), 9999),
        (3, ("1-a", "2-b"), 9093),
        (7, ("1-a", "2-b"), 9093),
        (6, (), 9093),
    ],
    ids=["the whole log", "up to the VotersRecord", "before it", "what was not read yet", "no voters"],
)
def test_endpoints_that_the_leaders_snapshot_has_and_the_log_lacks_were_overridden(
    end_offset: int, of_snapshot: tuple[str, ...], port: int
) -> None:
    """A rescue writes them into a snapshot that ends where the log ends, and no record into the log (KIP-1347)."""
    script, replay = begun()
    script.kraft(1)
    script.noops(1)
    script.voters("1-a", "2-b")
    script.noops(2)
    apply(replay, [script.read()])
    # Kafka lists voters in any order.
    voters = tuple(voter(name, 9999) for name in reversed(of_snapshot)) or None
    snapshot = replace(SNAPSHOT, end_offset=Offset(end_offset), voters=voters)
    overridden = script.row(view(1, log=replace(LOG, snapshot=snapshot)))
    same = script.row(view(1, log=replace(LOG, snapshot=snapshot)))
    quorum = apply(again(replay.to_bytes()), [overridden, same])

    assert {str(each.key): each.endpoints for each in present(quorum.committed).voters} == {
        name: (endpoint(int(name[0]), port),) for name in ("1-a", "2-b")
    }
    assert [one.moved for one in quorum.history.voter_changes] == [(1, 2)] * (port == 9999)
    assert quorum.leader_epoch == 1
