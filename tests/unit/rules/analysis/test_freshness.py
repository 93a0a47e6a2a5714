"""How old the observations are that rules use."""

from dataclasses import replace

import pytest

from rules.analysis.freshness import fresh_views, log_read_problem
from rules.finding import Thresholds
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.monitoring import LeaderView
from tests.unit.rules.situation import LOG_END, NOW, healthy, view


@pytest.mark.parametrize(
    ("missing", "problem"), [(1_000, None), (1_001, "1001 committed records are still to be read")]
)
def test_log_counts_as_read_while_at_most_a_thousand_committed_records_are_missing(
    missing: int, problem: str | None
) -> None:
    assert log_read_problem(replace(healthy(), last_offset=Offset(LOG_END - 1 - missing))) == problem


def reported(endpoint: str, node: int | None, *, ago_ms: int = 0) -> LeaderView:
    of_node = None if node is None else NodeId(node)
    return replace(view(1), endpoint=endpoint, node=of_node, observed_at_ms=Millis(NOW - ago_ms))


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
