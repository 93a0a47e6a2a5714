"""What `--at` may say."""

import pytest

from connectors.errors import UsageError
from connectors.point_in_time import AtOffset, AtTime, Moment
from rules.model.identifiers import Millis, Offset
from streaming.cli.time_argument import moment


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0", AtOffset(offset=Offset(0))),
        ("4601", AtOffset(offset=Offset(4601))),
        ("1970-01-01T00:00:01Z", AtTime(at_ms=Millis(1_000))),
        ("1970-01-01T00:00:01.5", AtTime(at_ms=Millis(1_500))),
        ("1970-01-01T01:00:00+01:00", AtTime(at_ms=Millis(0))),
        ("1970-01-02", AtTime(at_ms=Millis(86_400_000))),
    ],
)
def test_digits_are_an_offset_and_all_else_a_time_in_utc_unless_it_says_otherwise(text: str, meant: Moment) -> None:
    assert moment(text) == meant


@pytest.mark.parametrize("text", ["", "-5", "now", "12:30", "5.0", "2026-13-01"])
def test_what_is_neither_is_one_sentence(text: str) -> None:
    with pytest.raises(UsageError, match="expected an OFFSET or a TIME as 2026-11-20T08:15:00Z"):
        moment(text)
