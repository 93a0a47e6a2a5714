"""Which failed observations show that the quorum has no leader."""

from dataclasses import replace

import pytest

from rules.analysis.leadership import last_leader_answer_ms, leaderless, unreachable_leader
from rules.model.identifiers import Epoch, NodeId
from rules.model.monitoring import Connection, Reason, probe_key
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    all_refuse,
    endpoint,
    failing,
    findings,
    healthy,
    not_observed_for,
    present,
    static,
)
from tests.unit.rules.situation import leaderless as without_leader


@pytest.mark.parametrize("reason", [Reason.TIMED_OUT, Reason.UNREACHABLE])
def test_a_broker_that_was_asked_too_is_none_of_the_controllers_that_refuse(reason: Reason) -> None:
    quorum = failing(replace(all_refuse(healthy()), committed=None), reason, "b101.test:9092")

    found = leaderless(quorum)

    assert found is not None
    assert found.refused == ("c1.test:9093", "c2.test:9093", "c3.test:9093")


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
