"""voter-without-controller: a voter that is a broker only, or fetches without any registration."""

from dataclasses import replace

from rules.finding import Severity
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    broker,
    finding_lines,
    findings,
    healthy,
    position,
    refuses,
    registered,
    static,
    unknown,
    voter_not_fetching,
    with_broker,
)

RULE = "voter-without-controller"


def without_controller(quorum: Quorum, *nodes: int) -> Quorum:
    """No controller is registered under these ids."""
    return replace(quorum, controllers={node: one for node, one in quorum.controllers.items() if node not in nodes})


def started_as_broker(quorum: Quorum, node: int, *, ago_ms: int = 300_000) -> Quorum:
    """The node was a controller and a broker; now it is a broker only, and nothing listens at its endpoint."""
    later = replace(broker(node), at=position(9_000, ago_ms))
    return refuses(replace(quorum, brokers={**quorum.brokers, NodeId(node): later}), node)


def test_a_voter_that_is_a_broker_only_is_a_warning() -> None:
    (finding,) = findings(with_broker(without_controller(healthy(), 2), 2), RULE)

    assert (finding.subject, finding.severity) == ("voter 2", Severity.WARNING)
    assert finding.summary == (
        "Voter 2 runs no controller: it is registered as a broker only. It grants no vote and cannot lead. "
        "Failures tolerated: 0 instead of 1."
    )
    assert finding.remedy[-2].endswith(
        "remove-controller --controller-id 2 --controller-directory-id dirOf2" + 16 * "A"
    )
    assert finding.starts == (2,)


def test_a_voter_without_any_registration_is_a_warning() -> None:
    (finding,) = findings(without_controller(healthy(5), 2), RULE)

    assert "no controller is registered under its id" in finding.summary
    assert "1 instead of 2" in finding.summary


def test_each_voter_without_a_controller_has_a_finding() -> None:
    assert [each.subject for each in findings(without_controller(healthy(5), 1, 4), RULE)] == ["voter 1", "voter 4"]


def test_a_node_that_was_started_again_as_a_broker_only_is_a_warning() -> None:
    (finding,) = findings(started_as_broker(healthy(), 2), RULE)

    assert "it was started as a broker only at 2026-09-21 " in finding.summary
    at_33 = replace(started_as_broker(healthy(), 2), metadata_version=33)
    (also_unregistered,) = findings(at_33, RULE)
    removals = [step for one in (finding, also_unregistered) for step in one.remedy if "remove-controller" in step]
    assert [step.endswith(" --unregister") for step in removals] == [False, True]


def test_a_node_of_both_roles_is_healthy() -> None:
    quorum = with_broker(healthy(), 2)

    assert finding_lines(quorum) == []
    # Its broker registers some seconds after its controller; while its controller listens, it registered again.
    assert findings(started_as_broker(quorum, 2, ago_ms=80_000_000 - 5_000), RULE) == []
    assert findings(replace(started_as_broker(quorum, 2), probes=quorum.probes), RULE) == []


def test_a_voter_that_does_not_fetch_is_unknown_unless_it_is_registered_as_a_broker() -> None:
    quorum = without_controller(voter_not_fetching(healthy(), 2), 2)

    assert findings(quorum, RULE) == []
    assert (RULE, "voter 2") in unknown(quorum)
    # A broker that is a voter ends.
    assert findings(with_broker(quorum, 2, fenced=True), RULE) != []


def test_a_registration_without_a_vote_and_a_static_quorum_are_none() -> None:
    assert findings(registered(healthy(), 9), RULE) == []
    assert findings(static(without_controller(healthy(), 2)), RULE) == []
