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
    with_committed,
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


TLS = "CONTROLLER_SSL"


def with_listeners(quorum: Quorum, node: int, *names: str, recorded: bool = True, snapshot: bool = False) -> Quorum:
    """A controller has these listeners, the first of which it dials; so has its record."""
    protocols = {"CONTROLLER": "PLAINTEXT", TLS: "SSL", "EXTRA": "SASL_SSL"}
    endpoints = tuple(
        Endpoint(listener=name, host=f"c{node}.test", port=9093 + at, protocol=protocols[name])
        for at, name in ((sorted(protocols).index(name), name) for name in names)
    )
    known = quorum.controllers[NodeId(node)]
    quorum = with_controller(quorum, replace(known, endpoints=endpoints, at=replace(known.at, snapshot=snapshot)))
    voters = tuple(
        replace(voter, endpoints=endpoints) if voter.key.id == node and recorded else voter for voter in quorum.voters
    )
    return with_committed(quorum, voters=voters)


def rolled(*listeners: tuple[str, ...], snapshot: bool = False) -> Quorum:
    """Controllers 1, 2, … have these listeners."""
    quorum = healthy(len(listeners))
    for node, names in enumerate(listeners, 1):
        quorum = with_listeners(quorum, node, *names, snapshot=snapshot)
    return quorum


FORMER, BOTH, TLS_FIRST, NEW = ("CONTROLLER",), ("CONTROLLER", TLS), (TLS, "CONTROLLER"), (TLS,)


@pytest.mark.parametrize(
    "listeners",
    [
        (BOTH, FORMER, FORMER),
        (BOTH, BOTH, BOTH),
        (TLS_FIRST, BOTH, BOTH),
        (TLS_FIRST, TLS_FIRST, BOTH),
        (NEW, TLS_FIRST, TLS_FIRST),
        (NEW, NEW, TLS_FIRST),
        (NEW, NEW, NEW),
        (("CONTROLLER", "EXTRA"), FORMER, ("CONTROLLER", TLS)),
    ],
)
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_listener_is_replaced_roll_by_roll_without_a_finding(
    listeners: tuple[tuple[str, ...], ...], snapshot: bool
) -> None:
    assert findings(rolled(*listeners, snapshot=snapshot), RULE) == []


@pytest.mark.parametrize(
    ("listeners", "summary"),
    [
        ((NEW, BOTH, BOTH), "Voter 1 has no listener CONTROLLER, which voters 2 and 3 dial."),
        ((NEW, FORMER, FORMER), "Voter 1 has no listener CONTROLLER, which voters 2 and 3 dial."),
        ((TLS_FIRST, FORMER, BOTH), f"Voter 1 dials listener {TLS}, which voter 2 does not have."),
        ((TLS_FIRST, TLS_FIRST, FORMER), f"Voter 3 has no listener {TLS}, which voters 1 and 2 dial."),
        ((NEW, NEW, BOTH), "Voter 3 dials listener CONTROLLER, which voters 1 and 2 do not have."),
    ],
)
def test_a_roll_in_the_wrong_order_is_reported(listeners: tuple[tuple[str, ...], ...], summary: str) -> None:
    (finding,) = findings(rolled(*listeners), RULE)
    assert finding.summary.startswith(summary)
    assert any("give every controller both listeners first" in step for step in finding.remedy)


def test_one_listener_with_two_protocols_is_reported_whatever_listener_is_first() -> None:
    quorum = rolled(BOTH, TLS_FIRST, TLS_FIRST)
    known = quorum.controllers[NodeId(1)]
    mapped = tuple(replace(one, protocol="SASL_SSL") if one.listener == TLS else one for one in known.endpoints)
    (finding,) = findings(with_controller(quorum, replace(known, endpoints=mapped)), RULE)
    assert finding.summary.startswith(
        f"Voter 1 registered listener {TLS} with protocol SASL_SSL, other voters with SSL."
    )
    assert finding.evidence["registered_protocols"] == {"1": "SASL_SSL", "2": "SSL", "3": "SSL"}


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
