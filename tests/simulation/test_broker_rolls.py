"""Rolls of simulated clusters by the gate alone, with faults at random: what it says of a node is what happens.

Each answer about a broker is compared with a copy of the cluster in which it shuts down, and each restart of a
controller with a copy of the quorum. Topics have a replica to spare, so no roll is stuck once the faults have ended; no
answer about a broker refuses what would cost nothing.
"""

from collections.abc import Callable, Iterable

import pytest

from tests.simulation.simulated_brokers import RollCount, rolls
from tests.simulation.simulated_roll import quorum_rolls


def assert_right(count: RollCount, clusters: int) -> None:
    assert count.wrong == [], count.report
    assert count.asked["rolls"] == clusters, count.report
    assert count.asked["not safe"] > clusters, "faults make some restarts unsafe"


def test_no_roll_by_the_gate_refuses_a_producer_or_is_stuck() -> None:
    assert_right(rolls(range(60)), 60)


def test_no_roll_of_controllers_by_the_gate_ends_the_commits_or_is_stuck() -> None:
    assert_right(quorum_rolls(range(2)), 2)


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("rolled", [rolls, quorum_rolls])
def test_ten_thousand_rolls_by_the_gate_refuse_no_producer(rolled: Callable[[Iterable[int]], RollCount]) -> None:
    count = rolled(range(10_000))
    assert_right(count, 10_000)
    print(count.report)  # noqa: T201
