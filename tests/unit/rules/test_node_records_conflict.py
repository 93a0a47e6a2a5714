"""One directory id under two node ids, and listeners that differ between the voters."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Endpoint, NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    endpoint,
    findings,
    healthy,
    key,
    leaderless,
    observer,
    registration,
    static,
    with_controller,
)

RULE = "node-records-conflict"


def with_registered(quorum: Quorum, node: int, **changes: str) -> Quorum:
    """Returns the quorum with another listener in this controller's registration."""
    known = quorum.controllers[NodeId(node)]
    endpoints = tuple(replace(one, **changes) for one in known.endpoints)  # type: ignore[arg-type]
    return with_controller(quorum, replace(known, endpoints=endpoints))


def all_with_protocol(protocol: str) -> Quorum:
    quorum = healthy()
    for node in (1, 2, 3):
        quorum = with_registered(quorum, node, protocol=protocol)
    return quorum


def test_one_directory_id_under_two_node_ids_is_reported() -> None:
    (finding,) = findings(observer(healthy(), 4, directory="dirOf2"), RULE)
    directory = key(2).directory_id
    assert finding.subject == f"directory {directory}"
    assert finding.summary.startswith(f"Nodes 2 and 4 have the same directory id {directory}: a disk was cloned.")
    assert (finding.evidence["node_ids"], finding.evidence["voter_ids"]) == ([2, 4], [2])
    assert finding.remedy[0].startswith("# Stop node 4, delete its metadata directory")


def test_of_two_protocols_that_are_as_frequent_the_leaders_is_the_usual_one() -> None:
    quorum = healthy(2)
    quorum = with_registered(with_registered(quorum, 1, protocol="SSL"), 2, protocol="PLAINTEXT")
    assert [one.subject for one in findings(quorum, RULE)] == ["voter 1"]
    assert [one.subject for one in findings(replace(quorum, leader_id=NodeId(1)), RULE)] == ["voter 2"]
    of_leader_alone = with_registered(all_with_protocol("PLAINTEXT"), 3, protocol="SSL")
    assert [one.subject for one in findings(of_leader_alone, RULE)] == ["voter 3"]


def test_a_recorded_listener_that_is_not_registered_is_reported() -> None:
    (finding,) = findings(with_registered(healthy(), 3, listener="CONTROLLER_SSL"), RULE)
    assert finding.subject == "voter 3"
    assert finding.summary == (
        "Voter 3 is recorded with listener CONTROLLER, which its registration does not have. "
        "Other voters cannot dial it after a restart."
    )
    assert "c3.test" not in finding.remedy[-1], "the quorum is described by another controller"
    assert finding.evidence["registered_listeners"] == ["CONTROLLER_SSL at c3.test:9093"]


EXTRA = Endpoint(listener="EXTRA", host="c1.test", port=9094, protocol="SSL")
LEGAL = {
    "one protocol": all_with_protocol("SASL_SSL"),
    "one known protocol": with_registered(healthy(), 1, protocol="SSL"),
    "the case of a listener": with_registered(healthy(), 1, listener="controller"),
    "another listener": with_controller(healthy(), replace(registration(1), endpoints=(endpoint(1), EXTRA))),
    "two directories of one node": observer(healthy(), 2, directory="newDirOf2"),
    "a clone that does not fetch": observer(healthy(), 4, directory="dirOf2", fetched_ago_ms=11_000, lags=(11_000,)),
    "no registrations": replace(healthy(), controllers={}),
    "static": static(with_registered(all_with_protocol("SSL"), 1, protocol="PLAINTEXT")),
    "no leader": leaderless(with_registered(healthy(), 3, listener="OTHER"), 1, 2, 3),
}


@pytest.mark.parametrize("what", LEGAL)
def test_no_finding(what: str) -> None:
    assert findings(LEGAL[what], RULE) == []


def test_a_broker_on_a_clone_of_another_broker_is_reported() -> None:
    (finding,) = findings(observer(healthy(), 103, directory="dirOf101", registered=False), RULE)
    assert finding.evidence["node_ids"] == [101, 103]
    assert finding.remedy[0].startswith("# Stop the one of nodes 101 and 103 that was added last")
