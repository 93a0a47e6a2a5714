"""A monitor that evaluates quiet rows at its pace sends the alerts of one that evaluates every row, hardly later.

On the simulation, and on incidents without holds, with the urgency that the gatherer's writer gives each row.
"""

from collections.abc import Mapping
from itertools import groupby

import pytest

from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.pace import PACE_MS
from tests.simulation.incidents import INCIDENTS
from tests.simulation.published_rows import PublishedRows, times
from tests.simulation.recorded_simulation import NO_HOLD, SOME_INCIDENTS, RecordedIncident, RecordedSimulation
from tests.simulation.simulated_monitor import ACCESS, OVERRIDES


def assert_alerts_are_hardly_later(
    simulation: RecordedSimulation | RecordedIncident, overrides: Mapping[str, float] = OVERRIDES
) -> None:
    """Asserts that the same alerts follow, each at most PACE_MS later than where every row is evaluated."""
    settings = ClusterSettings(
        name="simulated",
        bootstrap=simulation.gatherer.bootstrap,
        access=ACCESS,
        thresholds=thresholds_for(overrides),
    )
    each_row, paced = (
        PublishedRows(ClusterMonitor(settings, pace_ms=pace_ms), quiet_rows_wait=False) for pace_ms in (0, PACE_MS)
    )
    for _, rows in groupby(simulation.rows, key=lambda row: row.observed_at_ms):
        second = [*rows]
        each_row.second(second)
        paced.second(second)
    before, now = times(each_row), times(paced)
    assert {key: len(found) for key, found in now.items()} == {key: len(found) for key, found in before.items()}
    later: dict[tuple[str, ...], list[Millis]] = {
        key: [Millis(now_ms - before_ms) for before_ms, now_ms in zip(found, now[key], strict=True)]
        for key, found in before.items()
    }
    assert {key: found for key, found in later.items() if max(found) > PACE_MS} == {}
    assert before


@pytest.mark.parametrize("seed", [1, 5, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))])
def test_no_alert_is_later_by_more_than_the_pace(seed: int) -> None:
    simulation = RecordedSimulation(seed, polls_only=seed == 5)
    simulation.run(6_000)
    assert_alerts_are_hardly_later(simulation)


@pytest.mark.parametrize("name", SOME_INCIDENTS)
def test_no_alert_of_an_incident_is_later_by_more_than_the_pace(name: str) -> None:
    simulation = RecordedIncident(1, INCIDENTS[name])
    simulation.happen()
    assert_alerts_are_hardly_later(simulation, NO_HOLD)
