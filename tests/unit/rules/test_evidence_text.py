"""Evidence as lines: durations, tables and empty values."""

import math

import pytest

from rules.evidence_text import evidence_lines
from rules.formatting import duration


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0.0 s"),
        (400, "0.4 s"),
        (9_949, "9.9 s"),
        (10_000, "10 s"),
        (59_600, "1 min"),
        (185_000, "3 min 5 s"),
        (7_800_000, "2 h 10 min"),
        (86_400_000, "1 d"),
        (792_000_000, "9 d 4 h"),
    ],
)
def test_durations_are_readable(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_objects_with_different_fields_get_one_line_each() -> None:
    assert evidence_lines({"seen": [{"id": 1}, {"node": 2}, 3]}) == [("seen", "id=1"), ("", "node=2"), ("", "3")]


def test_empty_and_extreme_values_have_a_text() -> None:
    assert evidence_lines({"a": {}, "b": "", "c": True, "d_at_ms": 10**18, "e": {"x": 1, "y_ms": 2_000}}) == [
        ("a", "none"),
        ("b", "(empty)"),
        ("c", "yes"),
        ("d_at", str(10**18)),
        ("e", "x=1, y=2.0 s"),
    ]


def test_a_number_that_is_no_number_is_unknown() -> None:
    assert evidence_lines({"lag_ms": math.nan, "rate": math.inf}) == [("lag", "unknown"), ("rate", "unknown")]
