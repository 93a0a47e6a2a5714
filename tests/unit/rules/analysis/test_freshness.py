"""How old the observations are that rules use."""

from dataclasses import replace

import pytest

from rules.analysis.freshness import fresh_poll, fresh_probe, fresh_views, log_age_problem, log_read_problem
from rules.finding import Thresholds
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.monitoring import LeaderView
from tests.unit.rules.situation import LOG_END, NOW, healthy, not_observed_for, probed, view


@pytest.mark.parametrize(
    ("missing", "problem"), [(1_000, None), (1_001, "1001 committed records are still to be read")]
)
def test_log_counts_as_read_while_at_most_a_thousand_committed_records_are_missing(
    missing: int, problem: str | None
) -> None:
    assert log_read_problem(replace(healthy(), last_offset=Offset(LOG_END - 1 - missing))) == problem


def test_log_counts_as_read_while_the_high_watermark_is_unknown() -> None:
    assert log_read_problem(replace(healthy(), high_watermark=None)) is None


@pytest.mark.parametrize(("age_ms", "fresh"), [(10_000, True), (10_001, False)])
def test_observation_is_fresh_up_to_its_age_limit(age_ms: int, fresh: bool) -> None:
    quorum = not_observed_for(probed(healthy(), 1, ago_ms=age_ms), log_ms=age_ms, poll_ms=age_ms)
    limits = Thresholds(values={"poll_age": 10, "probe_age": 10, "answer_age": 10})

    assert (fresh_poll(quorum, limits) is not None) is fresh
    assert (fresh_probe(quorum, quorum.voters[0], limits) is not None) is fresh
    assert (log_age_problem(quorum, limits) is None) is fresh


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


def reported(address: str, node: int | None, *, ago_ms: int = 0) -> LeaderView:
    of_node = None if node is None else NodeId(node)
    return replace(view(1), endpoint=address, node=of_node, observed_at_ms=Millis(NOW - ago_ms))


def test_fresh_views_are_in_the_order_of_node_ids_and_those_of_unknown_nodes_are_last() -> None:
    views = (
        reported("a:9093", None),
        reported("b:9093", 10),
        reported("c:9093", 1),
        reported("d:9093", 0, ago_ms=30_000),
        reported("e:9093", None),
        reported("f:9093", 2, ago_ms=30_001),
    )
    quorum = replace(healthy(), leader_views={each.endpoint: each for each in reversed(views)})

    fresh = fresh_views(quorum, Thresholds(values={"view_age": 30}))

    assert [each.endpoint for each in fresh] == ["d:9093", "c:9093", "b:9093", "a:9093", "e:9093"]
