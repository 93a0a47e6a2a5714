"""Durations, times, lists and addresses as text."""

from datetime import UTC, datetime

import pytest

from rules.formatting import and_join, first_values, ms_text, utc_text
from rules.model.identifiers import Endpoint, host_of


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (850, "850 ms"),
        (1_000, "1 s"),
        (75_999, "75 s"),
        (120_000, "2 min"),
        (7_199_000, "119 min"),
        (7_200_000, "2 h"),
        (172_800_000, "2 days"),
    ],
)
def test_durations_as_text(duration: int, text: str) -> None:
    assert ms_text(duration) == text


@pytest.mark.parametrize(
    ("host", "address"), [("c1", "c1:9093"), ("10.0.0.1", "10.0.0.1:9093"), ("fd00::1", "[fd00::1]:9093")]
)
def test_an_address_of_version_6_is_in_brackets_and_a_host_is_not(host: str, address: str) -> None:
    assert str(Endpoint(listener="CONTROLLER", host=host, port=9093)) == address
    assert host_of(address) == host


def test_lists_as_text() -> None:
    assert and_join([]) == "none"
    assert and_join([1]) == "1"
    assert and_join([1, 2]) == "1 and 2"
    assert and_join("abc") == "a, b and c"
    assert and_join(range(20), 3) == "0, 1, 2 and 17 more"


@pytest.mark.parametrize(("count", "more"), [(0, 0), (99, 0), (100, 0), (101, 1), (250, 150)])
def test_a_hundred_entries_are_listed_and_the_others_counted(count: int, more: int) -> None:
    names = [f"n{number}" for number in range(count)]
    listed = names[:100]
    assert first_values([*names]) == [*listed, *[f"{more} more"] * bool(more)]


def test_utc_text_agrees_with_the_calendar() -> None:
    days = range(951_696_000_000, 951_696_000_000 + 5 * 366 * 86_400_000, 86_400_000)
    for at in (0, 951_782_399_999, 1_709_164_800_000, 4_107_542_399_000, 253_402_300_799_999, *days):
        expected = datetime.fromtimestamp(at // 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        assert utc_text(at) == expected
    assert utc_text(-1) == "-1 ms since 1970"
    assert utc_text(253_402_300_800_000) == "253402300800000 ms since 1970"
