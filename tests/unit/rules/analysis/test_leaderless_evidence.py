"""Which failed observations show that the quorum has no leader."""

from dataclasses import replace

import pytest

from rules.analysis.leadership import last_leader_answer_ms, leaderless, unreachable_leader
from rules.evaluate import evaluate, thresholds_for
from rules.model.identifiers import Epoch, NodeId
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Vantage, probe_key
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    all_refuse,
    endpoint,
    failing,
    finding_lines,
    findings,
    healthy,
    name_not_found,
    not_observed_for,
    present,
    probed,
    refuses,
    static,
)
from tests.unit.rules.situation import leaderless as without_leader


@pytest.mark.parametrize("reason", [Reason.TIMED_OUT, Reason.UNREACHABLE])
def test_a_broker_that_was_asked_too_is_none_of_the_controllers_that_refuse(reason: Reason) -> None:
    quorum = failing(replace(all_refuse(healthy()), committed=None), reason, "b101.test:9092")

    found = leaderless(quorum)

    assert found is not None
    assert found.refused == ("c1.test:9093", "c2.test:9093", "c3.test:9093")


def test_a_leader_that_enough_others_follow_leads_although_it_does_not_answer() -> None:
    """So a condition that was pending ends, and an alert resolves: this is not only unknown."""
    evaluation = evaluate(followed(healthy(), 1, 2), thresholds_for({}))

    assert evaluation.knows("no-leader", "quorum")
    assert [each.rule for each in evaluation.findings] == ["monitor-blind"]


def test_a_leader_that_one_follower_names_only_may_lead() -> None:
    """Controller 3 runs and rejects the monitor: who follows it may fail to fetch from it, and name it again."""
    quorum = failing(not_observed_for(healthy()), Reason.TLS_FAILED, "c3.test:9093")
    quorum = failing(quorum, Reason.NO_LEADER, "c1.test:9093", source=ObservationSource.QUORUM)
    quorum = failing(quorum, Reason.REFUSED, "c2.test:9093")

    assert not evaluate(quorum, thresholds_for({})).knows("no-leader", "quorum")


@pytest.mark.parametrize(("newer_by_ms", "counts"), [(999, False), (1_000, True)])
def test_a_report_of_no_leader_is_newer_than_the_last_answer_of_a_leader(newer_by_ms: int, counts: bool) -> None:
    answered = not_observed_for(without_leader(healthy(), 1), log_ms=newer_by_ms, poll_ms=None)

    assert (leaderless(answered) is not None) is counts


def followed(quorum: Quorum, *followers: int) -> Quorum:
    """Controller 3 leads and does not answer; these controllers answer, and report it as leader."""
    quorum = failing(not_observed_for(quorum), Reason.TIMED_OUT, "c3.test:9093")
    return failing(quorum, Reason.NO_LEADER, *(f"c{node}.test:9093" for node in followers))


@pytest.mark.parametrize(("ago_ms", "counts"), [(60_000, True), (60_001, False)])
def test_a_leader_counts_as_not_reached_for_a_minute(ago_ms: int, counts: bool) -> None:
    quorum = failing(not_observed_for(healthy(), 90_000, 90_000), Reason.TIMED_OUT, "c3.test:9093", ago_ms=ago_ms)
    quorum = failing(quorum, Reason.NO_LEADER, "c1.test:9093", "c2.test:9093")
    assert (unreachable_leader(quorum) is not None) is counts


def test_the_last_answer_of_a_leader_is_the_newest_of_a_fetch_and_a_poll() -> None:
    for log_ms, poll_ms in ((60_000, 14_000), (14_000, 60_000)):
        assert last_leader_answer_ms(not_observed_for(healthy(), log_ms, poll_ms)) == NOW - 14_000


def test_the_last_leader_is_that_of_the_last_poll_and_not_the_unknown_one_of_now() -> None:
    (finding,) = findings(replace(without_leader(healthy(), 1, 2), leader_id=None), "no-leader")
    assert finding.summary.endswith("The last leader was controller 3.")
    assert finding.evidence["last_leader"] == 3


def test_a_controller_that_is_cut_off_knows_no_leader_while_the_others_have_one() -> None:
    """Controller 5 leads and does not answer; 2, 3 and 4 follow it."""
    quorum = failing(not_observed_for(healthy(5)), Reason.TIMED_OUT, "c5.test:9093")
    quorum = failing(quorum, Reason.NO_LEADER, *(f"c{node}.test:9093" for node in (1, 2, 3, 4)))
    view = quorum.leader_views["c1.test:9093"]
    for epoch in (view.leader_epoch, Epoch(99)):
        cut_off = replace(view, leader_id=None, leader_epoch=epoch)
        assert leaderless(replace(quorum, leader_views={**quorum.leader_views, view.endpoint: cut_off})) is None


@pytest.mark.parametrize(("rejecting", "missing"), [(3, False), (2, True)])
def test_a_majority_that_rejects_the_login_may_have_a_leader(rejecting: int, missing: bool) -> None:
    """Controller 1 knows no leader; of the other four, which run, some reject the monitor's login."""
    quorum = failing(not_observed_for(healthy(5)), Reason.NO_LEADER, "c1.test:9093")
    quorum = failing(quorum, Reason.NOT_AUTHENTICATED, *(f"c{2 + n}.test:9093" for n in range(rejecting)))
    assert (leaderless(quorum) is not None) is missing


def test_a_follower_that_rejects_the_login_counts_with_those_that_answer() -> None:
    """Controller 5 leads; of its followers 1 and 2 answer, 4 rejects the monitor's login, and 3 times out."""
    quorum = failing(followed(healthy(5), 1, 2), Reason.TIMED_OUT, "c4.test:9093", "c5.test:9093")
    assert unreachable_leader(quorum) is None
    assert unreachable_leader(failing(quorum, Reason.NOT_AUTHENTICATED, "c4.test:9093")) is not None


def test_a_follower_counts_if_the_endpoint_that_the_others_dial_accepts_connections() -> None:
    """They dial the first endpoint of its record; the second one, which refuses, is for other clients."""
    quorum = followed(healthy(), 1, 2)
    first, *others = present(quorum.committed).voters
    extra = replace(endpoint(1, port=9095), listener="EXTRA")
    committed = replace(
        present(quorum.committed), voters=(replace(first, endpoints=(*first.endpoints, extra)), *others)
    )
    refuses = replace(quorum.probes[probe_key(NodeId(1), endpoint(1))], endpoint=extra, connection=Connection.REFUSED)
    probes = {**quorum.probes, probe_key(NodeId(1), extra): refuses}
    assert unreachable_leader(replace(quorum, committed=committed, probes=probes)) is not None


@pytest.mark.parametrize(
    ("polled", "configured", "leads"),
    [(3, 5, True), (5, 3, False), (None, 3, True), (None, 5, False), (None, 1, True)],
)
def test_a_majority_of_a_static_quorum_is_that_of_the_poll_or_of_the_configured_controllers(
    polled: int | None, configured: int, leads: bool
) -> None:
    """Two controllers follow."""
    quorum = followed(static(healthy()), 1, 2)
    poll = None if polled is None else healthy(polled).poll
    poll = poll and replace(poll, observed_at_ms=present(quorum.poll).observed_at_ms)
    bootstrap = tuple(f"c{node}.test:9093" for node in range(1, configured + 1))
    assert (unreachable_leader(replace(quorum, poll=poll, bootstrap=bootstrap)) is not None) is leads


def test_an_observer_of_a_static_quorum_elects_nobody() -> None:
    """Controllers 1 and 2 follow; by the newest poll 2 is an observer."""
    quorum = followed(static(healthy()), 1, 2)
    first, second, third = present(quorum.poll).voters
    poll = replace(present(quorum.poll), voters=(first, third), observers=(second,))
    assert unreachable_leader(replace(quorum, poll=poll)) is None


@pytest.mark.parametrize(("ago_ms", "counts"), [(0, True), (10_000, True), (10_001, False)])
def test_a_failure_counts_for_ten_seconds(ago_ms: int, counts: bool) -> None:
    quorum = failing(not_observed_for(healthy(), 60_000, 60_000), Reason.NO_LEADER, "c1.test:9093", ago_ms=ago_ms)

    assert (leaderless(quorum) is not None) is counts


def names_leader(quorum: Quorum, leader: int, *nodes: int) -> Quorum:
    """These controllers answer that another one leads; it does not answer."""
    named = failing(quorum, Reason.NO_LEADER, *(f"c{node}.test:9093" for node in nodes)).failures[-len(nodes) :]
    answered = tuple(replace(each, leader_id=NodeId(leader)) for each in named)
    return replace(quorum, failures=(*quorum.failures, *answered))


def rejected(quorum: Quorum, *nodes: int) -> Quorum:
    """These controllers run, and do not speak the monitor's protocol."""
    for node in nodes:
        quorum = probed(quorum, node, answer=Answer.NOT_ALLOWED)
    return quorum


def cut(quorum: Quorum, *nodes: int) -> Quorum:
    """Connections to these controllers time out."""
    for node in nodes:
        quorum = probed(quorum, node, connection=Connection.TIMED_OUT, answer=Answer.NOT_ASKED)
    return quorum


def never_led(quorum: Quorum) -> Quorum:
    """The voters are known from before, and no leader has answered this monitor."""
    return replace(quorum, poll=None, log_fetched_at_ms=None)


STALE = not_observed_for(healthy())
ONE_NAMES_ANOTHER = {
    "the leader rejects the monitor": (names_leader(rejected(STALE, 3, 2), 3, 1), False),
    "the leader was not asked, and listens": (names_leader(STALE, 3, 1), False),
    "its name does not resolve here": (names_leader(name_not_found(STALE, 3), 3, 1), False),
    "the leader refuses, another voter was not asked": (names_leader(refuses(STALE, 3), 3, 1), False),
    "the leader and another voter refuse": (names_leader(refuses(STALE, 2, 3), 3, 1), True),
    "the leader refuses, the others name it": (names_leader(refuses(STALE, 3), 3, 1, 2), True),
    "a majority times out where it answered before": (names_leader(cut(STALE, 2, 3), 3, 1), True),
    "a majority never answered from here": (names_leader(cut(never_led(STALE), 2, 3), 3, 1), False),
    "a majority times out from outside": (
        names_leader(cut(replace(STALE, vantage=Vantage.OUTSIDE), 2, 3), 3, 1),
        False,
    ),
    "it knows none": (failing(rejected(STALE, 3, 2), Reason.NO_LEADER, "c1.test:9093"), True),
    "by DescribeQuorum it only does not lead": (
        failing(rejected(STALE, 3, 2), Reason.NO_LEADER, "c1.test:9093", source=ObservationSource.QUORUM),
        False,
    ),
    "one of three addresses of a static quorum": (
        names_leader(replace(static(STALE), controllers={}, bootstrap=("c1.test:9093",)), 3, 1),
        False,
    ),
}


@pytest.mark.parametrize("what", ONE_NAMES_ANOTHER)
def test_a_node_that_follows_another_one_reports_no_missing_leader(what: str) -> None:
    quorum, missing = ONE_NAMES_ANOTHER[what]
    assert (leaderless(without_nodes(quorum)) is not None) is missing
    assert ("critical no-leader: quorum" in finding_lines(without_nodes(quorum))) is missing


def without_nodes(quorum: Quorum) -> Quorum:
    """In a static quorum, the newest poll lists the voters without where they listen."""
    if quorum.committed is not None or quorum.poll is None:
        return quorum
    return replace(quorum, poll=replace(quorum.poll, nodes={}))


def test_the_leader_that_one_follower_names_is_named() -> None:
    quorum = names_leader(rejected(STALE, 3), 3, 1)
    assert unreachable_leader(quorum) is not None
    (blind,) = findings(quorum, "monitor-blind")
    assert blind.summary.endswith("Controller 3 does not answer here, but c1.test:9093 reports it as leader.")


REFUSALS = {
    "every voter where it is recorded": (all_refuse(healthy()), True),
    "addresses that nothing records": (
        failing(replace(STALE, bootstrap=("old.test:1",)), Reason.REFUSED, "old.test:1"),
        False,
    ),
    "the former listener of each voter": (
        failing(rejected(STALE, 1, 2, 3), Reason.REFUSED, "c1.test:1", "c2.test:1", "c3.test:1"),
        False,
    ),
    "two of five voters of a static quorum": (
        all_refuse(replace(static(healthy(5)), controllers={}, bootstrap=("c1.test:9093", "c2.test:9093"))),
        False,
    ),
    "addresses from which nothing has answered yet": (
        replace(all_refuse(static(healthy())), controllers={}, poll=None, log_fetched_at_ms=None),
        False,
    ),
}


@pytest.mark.parametrize("where", REFUSALS)
def test_only_refusals_where_the_voters_are_recorded_show_that_there_is_no_leader(where: str) -> None:
    quorum, missing = REFUSALS[where]
    assert (leaderless(without_nodes(quorum)) is not None) is missing
