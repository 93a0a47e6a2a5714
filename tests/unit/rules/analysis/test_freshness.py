"""How old the observations are that rules use."""

from dataclasses import replace

import pytest

from rules.analysis.freshness import fresh_poll, fresh_probe, fresh_views, log_age_problem, log_read_problem
from rules.finding import Thresholds
from rules.model.identifiers import Millis, Offset
from tests.unit.rules.situation import LOG_END, NOW, healthy, not_observed_for, probed


@pytest.mark.parametrize(
    ("missing", "problem"), [(1_000, None), (1_001, "1001 committed records are still to be read")]
)
def test_log_counts_as_read_while_at_most_a_thousand_committed_records_are_missing(
    missing: int, problem: str | None
) -> None:
    assert log_read_problem(replace(healthy(), last_offset=Offset(LOG_END - 1 - missing))) == problem


@pytest.mark.parametrize(("gap_ended_ago_ms", "fresh"), [(5_000, True), (4_999, False)])
def test_what_was_observed_before_a_gap_is_not_fresh_after_it(gap_ended_ago_ms: int, fresh: bool) -> None:
    quorum = not_observed_for(probed(healthy(), 1, ago_ms=5_000), log_ms=5_000, poll_ms=5_000)
    views = {name: replace(each, observed_at_ms=Millis(NOW - 5_000)) for name, each in quorum.leader_views.items()}
    quorum = replace(quorum, watched_since_ms=Millis(NOW - gap_ended_ago_ms), leader_views=views)
    limits = Thresholds(values={"poll_age": 10, "probe_age": 10, "answer_age": 10, "view_age": 10})

    assert (fresh_poll(quorum, limits) is not None) is fresh
    assert (fresh_probe(quorum, quorum.voters[0], limits) is not None) is fresh
    assert (log_age_problem(quorum, limits) is None) is fresh
    assert bool(fresh_views(quorum, limits)) is fresh
