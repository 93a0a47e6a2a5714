"""What is known of a voter's recorded endpoint: the dial order, what the newest probe found, and fetches after it."""

from dataclasses import replace

import pytest

from rules.analysis.endpoint_status import endpoint_statuses, in_dial_order, probe_outcome
from rules.evaluate import thresholds_for
from rules.model.identifiers import Endpoint
from rules.model.monitoring import Answer, Connection
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    healthy,
    key,
    name_not_found,
    present,
    probed,
    refuses,
    resolver_fails,
    row,
)

THRESHOLDS = thresholds_for({})["stale-voter-endpoint"]


def listener(name: str) -> Endpoint:
    return Endpoint(listener=name, host="c1.test", port=9093)


@pytest.mark.parametrize(
    ("recorded", "registered", "order"),
    [
        (("INTERNAL", "CONTROLLER"), ("CONTROLLER", "INTERNAL"), ["CONTROLLER", "INTERNAL"]),
        (("CONTROLLER", "INTERNAL"), ("internal", "controller"), ["INTERNAL", "CONTROLLER"]),
        (("EXTRA", "INTERNAL", "CONTROLLER"), ("CONTROLLER", "INTERNAL"), ["CONTROLLER", "INTERNAL", "EXTRA"]),
        (("EXTRA", "CONTROLLER"), (), ["EXTRA", "CONTROLLER"]),
        (("EXTRA",), ("CONTROLLER",), ["EXTRA"]),
    ],
)
def test_endpoints_are_in_the_order_of_the_registered_listeners(
    recorded: tuple[str, ...], registered: tuple[str, ...], order: list[str]
) -> None:
    """A listener's name is case-insensitive; one that is not registered is last."""
    found = in_dial_order(tuple(map(listener, recorded)), map(listener, registered))
    assert [each.listener for each in found] == order


@pytest.mark.parametrize(
    ("quorum", "outcome"),
    [
        (replace(healthy(), probes={}), "not probed recently"),
        (name_not_found(healthy(), 1), "the name does not resolve (NXDOMAIN)"),
        (resolver_fails(healthy(), 1), "the resolver of the monitor's host failed"),
        (healthy(), "accepts connections"),
        (probed(healthy(), 1, answer=Answer.NO_ANSWER), "accepts connections and does not answer"),
        (probed(healthy(), 1, answer=Answer.OTHER_CLUSTER), "a node of another cluster answers"),
        (probed(healthy(), 1, answer=Answer.OTHER_NODE, answered_by=None), "another node answers"),
        (probed(healthy(), 1, answer=Answer.OTHER_NODE, answered_by=2), "node 2 answers"),
        (probed(healthy(), 1, answer=Answer.THIS_CLUSTER, answered_by=2), "node 2 answers"),
        (probed(healthy(), 1, answer=Answer.NOT_KAFKA), "something that does not speak Kafka answers"),
        (refuses(healthy(), 1), "refuses connections"),
        (probed(healthy(), 1, connection=Connection.TIMED_OUT), "the connection timed out"),
        (probed(healthy(), 1, connection=Connection.UNREACHABLE), "unreachable"),
        (probed(healthy(), 1, connection=Connection.NOT_TRIED), "not tried"),
    ],
)
def test_outcome_of_the_newest_probe(quorum: Quorum, outcome: str) -> None:
    assert probe_outcome(endpoint_statuses(quorum, quorum.poll, THRESHOLDS)[0]) == outcome


def test_voter_that_fetched_before_the_refusal_and_not_since_may_be_down() -> None:
    quorum = refuses(healthy(), 1, ago_ms=3_000)
    rows = tuple(
        row(key(1), fetched_ago_ms=5_000) if each.key == key(1) else each for each in present(quorum.poll).voters
    )
    poll = replace(present(quorum.poll), voters=rows)
    status, *_ = endpoint_statuses(replace(quorum, poll=poll), poll, THRESHOLDS)
    assert status.faults == ()
    assert "it is not known yet whether the voter still fetches" in (status.unknown_reason or "")
