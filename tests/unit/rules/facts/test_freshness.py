"""How old the observations are that rules use."""

import pytest

from rules.facts.freshness import fresh_poll, fresh_views, log_age_problem, log_read_problem
from rules.facts.node import Nodes
from rules.model.identifiers import NodeId
from tests.situation.commands import situation


@pytest.mark.parametrize(
    ("commands", "problem"),
    [
        (("unread 500s",), None),
        (("unread 500500ms",), "1001 committed records are still to be read"),
    ],
)
def test_log_counts_as_read_while_at_most_a_thousand_committed_records_are_missing(
    commands: tuple[str, ...], problem: str | None
) -> None:
    """Two records are appended in a second."""
    assert log_read_problem(situation(*commands)) == problem


@pytest.mark.parametrize(("gap_ended_ago", "fresh"), [("5s", True), ("4999ms", False)])
def test_what_was_observed_before_a_gap_is_not_fresh_after_it(gap_ended_ago: str, fresh: bool) -> None:
    quorum = situation("unanswered 5s", "probe 1 ok ago 5s", "unasked 2,3", "view 1 ago 5s", f"gap {gap_ended_ago}")

    assert (fresh_poll(quorum) is not None) is fresh
    assert (Nodes(quorum)[NodeId(1)].probe is not None) is fresh
    assert (log_age_problem(quorum) is None) is fresh
    assert bool(fresh_views(quorum)) is fresh
