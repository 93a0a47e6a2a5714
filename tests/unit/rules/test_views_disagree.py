"""views-disagree: the leader that each controller reports, compared with the others'."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Epoch, Millis, NodeId
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    adding,
    configured_voters,
    finding_lines,
    findings,
    foreign,
    healthy,
    unknown,
    unknown_reasons,
    view,
    with_poll,
    with_views,
)
from tests.unit.rules.situation import leaderless as nobody_leads

RULE = "views-disagree"
DISAGREES = [f"warning {RULE}: controller 1"]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (view(1, leader=2, epoch=6), DISAGREES),
        (view(1, leader=None), DISAGREES),
        (view(1, leader=None, epoch=12), DISAGREES),
        (foreign(view(1)), DISAGREES),
        (view(1, leader=2), [f"critical {RULE}: quorum"]),
        (view(1), []),
    ],
)
def test_controller_that_reports_another_leader_or_epoch_disagrees(reported: LeaderView, expected: list[str]) -> None:
    assert finding_lines(with_views(healthy(), reported)) == expected


def test_view_from_before_an_election_is_not_a_disagreement() -> None:
    """Controllers are asked every ten seconds, so some have not been asked since the election."""
    elected = [view(node, epoch=8, ago_ms=1_000, since_ms=1_000) for node in (2, 3)]
    quorum = with_poll(with_views(healthy(), *elected), leader_epoch=Epoch(8))
    assert finding_lines(quorum) == []
    for ago_ms in (500, 1_000):
        after_election = view(1, ago_ms=ago_ms)
        assert finding_lines(with_views(quorum, after_election)) == DISAGREES


def test_a_view_counts_since_the_first_controller_knew_the_epoch() -> None:
    elected = [view(2, epoch=8, ago_ms=1_000, since_ms=20_000), view(3, epoch=8, ago_ms=1_000, since_ms=1_000)]
    assert finding_lines(with_views(healthy(), *elected, view(1, ago_ms=10_000))) == DISAGREES


@pytest.mark.parametrize(
    ("node", "ago_ms", "counts"), [(4, 30_000, True), (4, 30_001, False), (None, 180_000, True), (None, 180_001, False)]
)
def test_a_view_counts_until_three_answers_are_missing(node: int | None, ago_ms: int, counts: bool) -> None:
    """A configured address that no node records is asked every minute, and a controller every ten seconds."""
    other = replace(
        view(4, leader=9, ago_ms=ago_ms), endpoint="other.test:9093", node=None if node is None else NodeId(node)
    )
    assert finding_lines(with_views(healthy(), other)) == ([f"critical {RULE}: quorum"] if counts else [])


def test_a_node_of_another_cluster_disagrees_although_it_reports_the_same_leader_and_epoch() -> None:
    assert finding_lines(with_views(healthy(), replace(view(1), this_cluster=False))) == DISAGREES


def test_voter_without_a_view_is_unknown_and_an_observer_is_evaluated() -> None:
    quorum = healthy()
    without_controller_1 = {name: each for name, each in quorum.leader_views.items() if each.node != 1}
    without_view = replace(quorum, leader_views=without_controller_1)
    assert unknown(without_view) == [(RULE, "controller 1")]
    assert unknown_reasons(without_view, RULE) == [
        ("controller 1", "controller 1 has not recently reported its leader")
    ]
    assert finding_lines(with_views(quorum, view(9, leader=None))) == [f"warning {RULE}: controller 9"]
    (finding,) = findings(with_views(quorum, view(9, leader=None)), RULE)
    assert "vote" not in finding.summary


def test_an_added_voter_has_no_vote_before_its_record_is_committed() -> None:
    (finding,) = findings(with_views(adding(healthy(), 4), view(4, leader=None, epoch=6)), "views-disagree")

    assert finding.evidence["is_voter"] is False
    assert "its vote is missing" not in finding.summary


def test_result_is_unknown_without_views_or_without_a_leader() -> None:
    assert unknown_reasons(replace(healthy(), leader_views={}), RULE) == [
        (None, "no controller has recently reported its leader")
    ]
    no_leader: Quorum = with_views(healthy(), *(view(node, leader=None) for node in (1, 2, 3)))
    assert unknown_reasons(replace(no_leader, poll=None), RULE) == [(None, "no controller knows a leader")]
    assert (RULE, None) in unknown(nobody_leads(with_views(healthy(), view(1, leader=None)), 1))


@pytest.mark.parametrize(
    ("reported", "summary"),
    [
        (
            replace(foreign(view(8)), node=None),
            "A node of another cluster answers at endpoint c8.test:9093.",
        ),
        (
            replace(view(1, leader=None), leader_epoch=None),
            "Controller 1 disagrees on the leader: it reports no leader in no epoch, but controller 3 leads epoch 7. "
            "Controller 1 takes no part in the quorum and its vote is missing.",
        ),
    ],
)
def test_summary_tells_what_the_controller_reports(reported: LeaderView, summary: str) -> None:
    (finding,) = findings(with_views(healthy(), reported), RULE)
    assert finding.summary == summary


@pytest.mark.parametrize(("polled", "leader"), [(True, 3), (False, None)])
def test_two_leaders_of_one_epoch_are_critical_with_or_without_a_poll(polled: bool, leader: int | None) -> None:
    quorum = with_views(healthy(), view(1, leader=2))
    (finding,) = findings(quorum if polled else replace(quorum, poll=None), RULE)
    assert finding.evidence["leaders"] == [2, 3]
    assert finding.evidence["leader_reported_by_poll"] == leader


def test_newest_epoch_may_be_known_from_a_poll_alone() -> None:
    later = with_poll(healthy(), leader_epoch=Epoch(8), observed_at_ms=Millis(NOW - 3_000))
    assert finding_lines(later) == [], "no controller was asked since"
    assert finding_lines(with_poll(later, observed_at_ms=Millis(NOW - 5_000))) == [
        f"warning {RULE}: controller {node}" for node in (1, 2, 3)
    ], "all of them were asked since"


VOTERS = "controller.quorum.voters"


THREE = "1@c1:9093,2@c2:9093,3@c3:9093"


@pytest.mark.parametrize(
    ("lists", "severity", "sentence"),
    [
        (
            (THREE, THREE, "2@c2:9093,3@c3:9093"),
            "warning",
            f"1 and 2 have {THREE}; 3 has 2@c2:9093,3@c3:9093. Each counts votes by its own list.",
        ),
        ((THREE, "1@c1:9093,2@c2:9093,4@c4:9093", None), "critical", "Two majorities are possible, and with them two"),
        # The leader is asked by DescribeQuorum only.
        ((THREE + ",4@c4:9093,5@c5:9093", None, None), "critical", "3 has 1,2,3."),
        ((THREE, THREE, "1@c1:9093,2@c2:9093,3@c3:19093"), "warning", "3 has 1@c1:9093,2@c2:9093,3@c3:19093."),
    ],
)
def test_controllers_that_count_votes_by_different_lists_are_reported(
    lists: tuple[str | None, ...], severity: str, sentence: str
) -> None:
    (finding,) = findings(configured_voters(healthy(), *lists), RULE)
    assert (finding.subject, finding.severity) == (VOTERS, severity)
    assert finding.summary.startswith(f"Controllers have different {VOTERS}: ")
    assert sentence in finding.summary


@pytest.mark.parametrize(
    "quorum",
    [
        configured_voters(healthy(), THREE, THREE, THREE),
        # Another order, another name of a host, and what the monitor may not read.
        configured_voters(healthy(), THREE, "3@10.0.0.3:9093, 2@c2.test:9093, 1@C1:9093", None),
        configured_voters(healthy(), None, None, None),
        configured_voters(healthy(), THREE, "2@c2:9093,3@c3:9093", THREE, ago_ms=31_000),
        # A dynamic quorum does not use it: the log has the voters.
        replace(
            configured_voters(healthy(), THREE, "2@c2:9093", THREE), kraft_version=1, committed=healthy().committed
        ),
    ],
)
def test_lists_that_agree_or_are_not_known_are_no_finding(quorum: Quorum) -> None:
    assert findings(quorum, RULE) == []
