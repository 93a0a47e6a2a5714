"""Rolls of simulated clusters by the gate alone, with faults at random: what it says of a broker is what happens.

Each answer is compared with a copy of the cluster in which the broker shuts down. Topics have a replica to spare, so no
roll is stuck once the faults have ended; no answer refuses what would cost nothing.
"""

import pytest

from tests.simulation.simulated_brokers import RollCount, rolls


def assert_right(count: RollCount, clusters: int) -> None:
    assert count.wrong == [], count.report
    assert count.asked["rolls"] == clusters, count.report
    assert count.asked["not safe"] > clusters, "faults make some restarts unsafe"


def test_no_roll_by_the_gate_refuses_a_producer_or_is_stuck() -> None:
    assert_right(rolls(range(60)), 60)


@pytest.mark.long
@pytest.mark.timeout(14_400)
def test_ten_thousand_rolls_by_the_gate_refuse_no_producer() -> None:
    count = rolls(range(10_000))
    assert_right(count, 10_000)
    print(count.report)  # noqa: T201
