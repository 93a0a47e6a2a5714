"""safe-to-restart and what-if, asked after every second of simulated quorums with faults, promise nothing false."""

from collections.abc import Iterable

import pytest

from tests.simulation.forecast import TIMERS, UNOBSERVED, UNTRIED, WITNESSED, ForecastCount, ForecastSimulation

STEPS = 4_000
"""Of one simulation: 200 seconds, in which several phases of faults begin and end."""


def forecasts(seeds: Iterable[int]) -> dict[bool, ForecastCount]:
    """Returns the answers of a monitor alone, and of one to which the controllers' hosts report (True)."""
    counts = {False: ForecastCount(), True: ForecastCount()}
    for seed in seeds:
        ForecastSimulation(seed, counts[seed % 4 in WITNESSED]).run(STEPS)
    return counts


def assert_proved(counts: dict[bool, ForecastCount]) -> None:
    for with_rows, count in counts.items():
        _assert_proved(count, frozenset({TIMERS}) if with_rows else UNOBSERVED)


def _assert_proved(count: ForecastCount, unobserved: frozenset[str]) -> None:
    """Asserts that no positive answer is false, and that of a healthy quorum only a start before makes it unknown.

    A fault was ended by restarts a minute or two before: an hour later these answers are known.
    """
    assert count.false_positive.keys() <= unobserved, count.report
    assert [one for one in count.unproved if UNTRIED not in one] == [], count.report
    assert len(count.unproved) < count.healthy.total() / 20, count.report
    for question, answers in count.answers.items():
        assert count.positive[question] > answers / 3, "most restarts are safe"
        assert count.negative[question] > answers / 50, "faults make some unsafe"


def test_no_answer_is_positive_unless_the_quorum_survives_it() -> None:
    assert_proved(forecasts((1, 2, 3, 4)))


@pytest.mark.long
@pytest.mark.timeout(14_400)
def test_no_answer_of_a_hundred_thousand_states_is_positive_unless_the_quorum_survives_it() -> None:
    counts = forecasts(range(100, 620))

    assert_proved(counts)
    assert sum(count.moments for count in counts.values()) > 100_000
    print(*(count.report for count in counts.values()), sep="\n")  # noqa: T201
