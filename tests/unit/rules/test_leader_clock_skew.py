"""leader-clock-skew: the leader's clock against the clock of kraftwatch's host."""

import pytest

from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from tests.unit.rules.situation import findings, healthy, leaders_clock, present, with_poll, with_rows

RULE = "leader-clock-skew"


def offset_ms(quorum: Quorum) -> int:
    """How far the clocks of the healthy quorum differ already."""
    return (present(present(quorum.poll).leader).last_fetch_ms or 0) - present(quorum.poll).observed_at_ms


def with_skew(skew_ms: int) -> Quorum:
    return leaders_clock(healthy(), ahead_ms=skew_ms - offset_ms(healthy()))


@pytest.mark.parametrize(
    ("skew_ms", "text"),
    [
        (60_001, "at least 60 s ahead of"),
        (-60_001, "at least 60 s behind"),
        (3 * 3_600_000 - 400, "at least 3 h ahead of"),
        (-5 * 3_600_000 + 3_000, "at least 4 h behind"),
        (400 * 86_400_000, "at least 365 days ahead of"),
    ],
)
def test_clocks_that_differ_by_more_than_a_minute_are_one_finding(skew_ms: int, text: str) -> None:
    (finding,) = findings(with_skew(skew_ms), RULE)
    assert finding.subject == "controller 3"
    assert finding.summary == f"The clock of controller 3, the leader, is {text} the clock of kraftwatch's host."


def test_the_finding_stays_the_same_while_the_clocks_run_on() -> None:
    assert findings(with_skew(7_200_000), RULE) == findings(with_skew(7_290_000), RULE)


def test_rows_ahead_of_a_clock_that_was_set_back_are_no_skew() -> None:
    """The times of rows never go back: for hours they are ahead of the host's clock, which is right again."""
    quorum = with_skew(-3_600_000)
    assert len(findings(quorum, RULE)) == 1
    assert findings(with_poll(quorum, clock_ahead_ms=Millis(3_600_000)), RULE) == []


def test_a_kafka_that_does_not_report_its_time_has_no_finding() -> None:
    assert findings(with_rows(healthy(), 1, 2, 3, last_fetch_ms=None), RULE) == []
