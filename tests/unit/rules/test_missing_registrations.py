"""node-not-registered and no-broker: processes that the log does not know, and a cluster without brokers."""

from dataclasses import replace

from rules.model.history import NodeKind, Unregistration
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    begun,
    finding_lines,
    findings,
    healthy,
    key,
    observer,
    unregistered,
    with_broker,
    without_brokers,
)

NODE = "node-not-registered"
BROKERS = "no-broker"
REFUSED = observer(healthy(), 103, registered=False)


def test_a_node_that_fetches_and_is_registered_as_nothing_is_refused() -> None:
    assert finding_lines(REFUSED) == ["warning node-not-registered: node 103"]
    (finding,) = findings(REFUSED, NODE)
    assert finding.summary.endswith("The active controller refuses its registration.")
    assert finding.evidence["directories"] == ["103-dirOf103AAAAAAAAAAAAAA"]


def test_a_node_that_was_unregistered_while_it_ran_must_be_restarted() -> None:
    (finding,) = findings(unregistered(observer(healthy(), 103, registered=False), 103), NODE)
    assert finding.summary.endswith("It was unregistered while it ran.")
    assert finding.remedy[0] == "# Restart node 103 if it is meant to run: it registers only at its start"


def test_a_registered_node_or_one_that_stopped_to_fetch_is_no_finding() -> None:
    assert not findings(observer(healthy(), 103), NODE), "a controller"
    assert not findings(with_broker(REFUSED, 103, fenced=True), NODE), "a broker that starts"
    assert not findings(observer(healthy(), 103, registered=False, fetched_ago_ms=11_000, lags=(11_000,) * 30), NODE)


def test_two_directories_of_a_node_are_one_finding() -> None:
    twice = observer(REFUSED, 103, directory="other", registered=False)
    (finding,) = findings(twice, NODE)
    assert finding.evidence["directories"] == ["103-dirOf103AAAAAAAAAAAAAA", f"{key(103, 'other')}"]


def test_a_quorum_that_never_had_a_broker_is_reported_once_it_is_an_hour_old() -> None:
    assert finding_lines(without_brokers(healthy())) == ["warning no-broker: brokers"]
    assert not findings(without_brokers(begun(healthy(), ago_ms=3_500_000)), BROKERS)


def test_that_the_last_broker_was_unregistered_is_critical_at_once() -> None:
    (finding,) = findings(unregistered(without_brokers(healthy()), 101), BROKERS)
    assert finding.severity == "critical"
    assert "broker 101, was unregistered" in finding.summary


def test_an_unregistered_controller_is_no_broker() -> None:
    quorum: Quorum = without_brokers(healthy())
    one = Unregistration(
        kind=NodeKind.CONTROLLER, id=NodeId(4), offset=Offset(9_000), timestamp_ms=Millis(NOW - 60_000)
    )
    (finding,) = findings(replace(quorum, history=replace(quorum.history, unregistrations=(one,))), BROKERS)
    assert finding.severity == "warning"


def test_a_fenced_broker_that_fetches_is_said_to_run() -> None:
    (finding,) = findings(with_broker(REFUSED, 103, fenced=True), "broker-fenced")
    assert "it runs and fetches the metadata log" in finding.summary
    assert finding.remedy[0].startswith("# Read in the log of broker 103 how far its start is, or why it is refused")
