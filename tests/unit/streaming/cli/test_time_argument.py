"""The values that `--at` accepts."""

import pytest

from connectors.errors import UsageError
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from rules.model.identifiers import Millis, Offset
from streaming.cli.options import LookBackOptions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", AtOffset(offset=Offset(0))),
        ("4601", AtOffset(offset=Offset(4601))),
        ("1970-01-01T00:00:01Z", AtTime(at_ms=Millis(1_000))),
        ("1970-01-01T00:00:01.5", AtTime(at_ms=Millis(1_500))),
        ("1970-01-01T01:00:00+01:00", AtTime(at_ms=Millis(0))),
        ("1970-01-02", AtTime(at_ms=Millis(86_400_000))),
    ],
)
def test_number_is_an_offset_and_anything_else_a_time_with_default_time_zone_utc(
    text: str, expected: PointInTime
) -> None:
    assert LookBackOptions(at=text).point_in_time == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "-5", "now", "12:30", "5.0", "2026-13-01"),
        # In UTC in the years 10000 and 0.
        *("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_invalid_value_is_reported_in_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="expected an OFFSET or a TIME such as 2026-11-20T08:15:00Z"):
        _ = LookBackOptions(at=text).point_in_time
