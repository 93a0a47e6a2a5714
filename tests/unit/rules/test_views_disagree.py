"""views-disagree: what each controller says of who leads, held against what the others say."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Epoch, Millis
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from tests.unit.rules.situation import NOW, findings, foreign, healthy, judged, told, unknown, view, views
from tests.unit.rules.situation import leaderless as nobody_leads

RULE = "views-disagree"
APART = [f"warning {RULE}: controller 1"]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (view(1, leader=2, epoch=6), APART),
        (view(1, leader=None), APART),
        (view(1, leader=None, epoch=12), APART),
        (foreign(view(1)), APART),
        (view(1, leader=2), [f"critical {RULE}: quorum"]),
        (view(1), []),
        # Too old to say anything; and from before this epoch was known to anybody.
        (view(1, leader=2, epoch=6, ago_ms=30_000), APART),
        (view(1, leader=2, epoch=6, ago_ms=30_001), []),
    ],
)
def test_who_stands_apart(said: LeaderView, expected: list[str]) -> None:
    assert told(views(healthy(), said)) == expected


def test_what_was_said_before_an_election_is_no_disagreement() -> None:
    """Asked every ten seconds, controllers have not all been asked since."""
    elected = [view(node, epoch=8, ago_ms=1_000, since_ms=1_000) for node in (2, 3)]
    quorum = views(healthy(), *elected)
    assert quorum.poll is not None
    quorum = replace(quorum, poll=replace(quorum.poll, leader_epoch=Epoch(8)))
    assert told(quorum) == []
    still = view(1, ago_ms=500)
    assert told(views(quorum, still)) == APART


def test_the_newest_epoch_may_be_known_by_a_poll_alone() -> None:
    quorum = healthy()
    assert quorum.poll is not None
    later = replace(quorum.poll, leader_epoch=Epoch(8), observed_at_ms=Millis(NOW - 3_000))
    assert told(replace(quorum, poll=later)) == [], "nobody was asked since"


def test_a_voter_that_says_nothing_is_unknown_and_an_observer_is_judged() -> None:
    quorum = healthy()
    silent = {name: each for name, each in quorum.views.items() if each.node != 1}
    assert unknown(replace(quorum, views=silent)) == [(RULE, "controller 1")]
    assert told(views(quorum, view(9, leader=None))) == [f"warning {RULE}: controller 9"]
    (finding,) = findings(views(quorum, view(9, leader=None)), RULE)
    assert "vote" not in finding.summary


def test_nobody_asked_and_nobody_leading_cannot_be_told() -> None:
    assert (RULE, None) in unknown(replace(healthy(), views={}))
    nobody: Quorum = views(healthy(), *(view(node, leader=None) for node in (1, 2, 3)))
    assert (RULE, None) in unknown(replace(nobody, poll=None))
    assert (RULE, None) in unknown(nobody_leads(views(healthy(), view(1, leader=None)), 1))


def test_an_endpoint_without_a_known_node_is_named_by_its_address() -> None:
    unnamed = replace(view(8, leader=None), node=None)
    quorum = views(healthy(), unnamed)
    last_asked_first = dict(reversed([*quorum.views.items()]))
    (finding,) = findings(replace(quorum, views=last_asked_first), RULE)
    assert finding.subject == "endpoint c8.test:9093"
    said = finding.evidence["views"]
    assert isinstance(said, dict)
    assert [*said] == ["controller 1", "controller 2", "controller 3", "endpoint c8.test:9093"]


def test_thresholds_reach_it() -> None:
    quorum = views(healthy(), view(1, leader=None, ago_ms=3_000))
    assert [each.rule for each in judged(quorum).findings] == [RULE]
    assert judged(quorum, {f"{RULE}.view_age": 2}).findings == ()
