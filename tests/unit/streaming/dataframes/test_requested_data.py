"""What a query requests: pushed-down filters never exclude more than Spark's own evaluation."""

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from connectors.sinks.sink import LATEST_MS
from streaming.dataframes.requested_data import bounds, matching_values, may_overlap


def test_comparisons_bound_a_column() -> None:
    filters = [IsNotNull(("offset",)), GreaterThan(("offset",), 5), LessThanOrEqual(("offset",), 9), EqualTo(("x",), 1)]

    assert bounds(filters, "offset") == (5, 9)
    assert bounds(filters, "x") == (1, 1)
    assert bounds(filters, "timestamp") == (None, None)


def test_a_time_bounds_in_milliseconds() -> None:
    since = datetime(2026, 9, 21, 14, 13, 20, 999, tzinfo=UTC)

    assert bounds([GreaterThan(("timestamp",), since)], "timestamp") == (1_790_000_000_000, None)


@given(st.integers(0, LATEST_MS))
@example(2_147_483_653_982)
def test_any_millisecond_bounds_exactly(at_ms: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)

    assert bounds([EqualTo(("timestamp",), time)], "timestamp") == (at_ms, at_ms)


def test_a_list_bounds_by_its_extremes_and_null_bounds_nothing() -> None:
    assert bounds([In(("offset",), (7, 3, 5))], "offset") == (3, 7)
    assert bounds([In(("offset",), (7, None))], "offset") == (None, None)
    assert bounds([EqualNullSafe(("offset",), None)], "offset") == (None, None)


def test_negations_and_fields_of_structs_bound_nothing() -> None:
    filters = [Not(EqualTo(("offset",), 3)), GreaterThan(("a", "offset"), 3)]

    assert bounds(filters, "offset") == (None, None)
    assert matching_values([Not(EqualTo(("type",), "A")), StringStartsWith(("type",), "A")], "type") is None


def test_values_that_match_are_the_intersection() -> None:
    filters = [In(("type",), ("A", "B")), EqualTo(("type",), "B")]

    assert matching_values(filters, "type") == {"B"}
    assert matching_values([Not(EqualTo(("snapshot",), True))], "snapshot") == {False}


def test_an_interval_overlaps_at_its_ends() -> None:
    assert may_overlap((5, 9), 9, 12)
    assert may_overlap((5, 9), 1, 5)
    assert not may_overlap((5, 9), 10, 12)
    assert not may_overlap((5, None), 1, 4)
    assert may_overlap((None, None), 1, 4)
