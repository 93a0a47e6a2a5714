"""Numbers as people say them."""

import pytest

from connectors.sinks.evidence_format import duration, written


@pytest.mark.parametrize(
    ("ms", "said"),
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
def test_durations(ms: int, said: str) -> None:
    assert duration(ms) == said


def test_objects_that_are_not_alike_stand_one_a_line() -> None:
    assert written({"seen": [{"id": 1}, {"node": 2}, 3]}) == [("seen", "id=1"), ("", "node=2"), ("", "3")]


def test_empty_and_odd_values_say_so() -> None:
    assert written({"a": {}, "b": "", "c": True, "d_at_ms": 10**18, "e": {"x": 1, "y_ms": 2_000}}) == [
        ("a", "none"),
        ("b", "(empty)"),
        ("c", "yes"),
        ("d_at_ms", str(10**18)),
        ("e", "x=1, y_ms=2.0 s"),
    ]
