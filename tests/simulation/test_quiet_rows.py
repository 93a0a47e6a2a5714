"""Quiet rows wait, in the gatherer and in a relay's topic, and are evaluated at a pace: no alert is later by more.

On the simulation, and on incidents without holds, with the urgency that the gatherer's writer gives each row.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from random import Random

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.finding import Evaluation
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.pace import PACE_MS
from tests.simulation.incidents import INCIDENTS
from tests.simulation.published_rows import PublishedRows, RelayedRows, times
from tests.simulation.recorded_simulation import NO_HOLD, RecordedIncident, RecordedSimulation
from tests.simulation.simulated_monitor import ACCESS, OVERRIDES, simulated_monitor


def assert_no_alert_is_later(
    simulation: RecordedSimulation | RecordedIncident, overrides: Mapping[str, float] = OVERRIDES
) -> None:
    """Asserts that the same alerts follow where rows wait, none later than with rows of every second, and none more
    than PACE_MS later than where each of these rows is evaluated."""
    settings = ClusterSettings(
        name="simulated",
        bootstrap=simulation.gatherer.bootstrap,
        access=ACCESS,
        thresholds=thresholds_for(overrides),
    )
    each_row, paced, waiting, relayed, relayed_waiting = (
        kind(ClusterMonitor(settings, pace_ms=pace_ms), quiet_rows_wait=waits)
        for kind, pace_ms, waits in (
            (PublishedRows, 0, False),
            (PublishedRows, PACE_MS, False),
            (PublishedRows, PACE_MS, True),
            (RelayedRows, PACE_MS, False),
            (RelayedRows, PACE_MS, True),
        )
    )
    for _, rows in groupby(simulation.rows, key=lambda row: row.observed_at_ms):
        second = [*rows]
        for each in (each_row, paced, waiting, relayed, relayed_waiting):
            each.second(second)
    assert each_row.alerts
    assert later(paced, each_row, PACE_MS) == {}
    for waits, each_second in ((waiting, paced), (relayed_waiting, relayed)):
        assert later(waits, each_second) == {}
        assert waits.publications <= each_second.publications


def later(now: PublishedRows, before: PublishedRows, most_ms: int = 0) -> dict[tuple[str, ...], list[Millis]]:
    """Returns by how much the alerts are later that are later by more; asserts that they are the same."""
    found, expected = times(now), times(before)
    assert {key: len(at) for key, at in found.items()} == {key: len(at) for key, at in expected.items()}
    late = {
        key: [Millis(now_ms - before_ms) for before_ms, now_ms in zip(at, found[key], strict=True)]
        for key, at in expected.items()
    }
    return {key: by for key, by in late.items() if max(by) > most_ms}


@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 3_000), *(pytest.param(seed, 6_000, marks=pytest.mark.long) for seed in range(1, 60))]
)
def test_no_alert_is_later(seed: int, steps: int) -> None:
    simulation = RecordedSimulation(seed, polls_only=seed % 6 == 5)
    simulation.run(steps)
    assert_no_alert_is_later(simulation)


SOME_INCIDENTS = ("cut_monitor_off", "elect_uncleanly")
"""Of those in which an alert would be later if every row waited."""


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        *((name, 1) for name in SOME_INCIDENTS),
        *(
            pytest.param(name, seed, marks=pytest.mark.long)
            for seed in range(1, 6)
            for name in INCIDENTS
            if seed > 1 or name not in SOME_INCIDENTS
        ),
    ],
)
def test_no_alert_of_an_incident_is_later(name: str, seed: int) -> None:
    simulation = RecordedIncident(seed, INCIDENTS[name])
    simulation.happen()
    assert_no_alert_is_later(simulation, NO_HOLD)


@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long), 3])
def test_no_condition_begins_or_ends_while_quiet_rows_wait(seed: int) -> None:
    simulation = RecordedSimulation(seed, polls_only=seed == 3)
    bootstrap, random = simulation.gatherer.bootstrap, Random(seed)
    simulation.run(3_000)
    monitor = simulated_monitor(bootstrap)
    checked = 0
    for row in simulation.rows:
        monitor.apply([row])
        quorum, until_ms = monitor.machine.quorum(), monitor.quiet_until_ms
        if monitor.machine.observed_nothing or until_ms <= quorum.now_ms + 1 or random.random() > 0.2:
            continue
        checked += 1
        for now_ms in (until_ms - 1, random.randrange(quorum.now_ms, until_ms)):
            passed_ms = now_ms - quorum.now_ms
            newest_ms = quorum.newest_timestamp_ms
            later = replace(
                quorum,
                now_ms=Millis(now_ms),
                newest_timestamp_ms=None if newest_ms is None else Millis(newest_ms + random.choice((0, passed_ms))),
            )
            now, then = (conditions(evaluate(Facts(each), monitor.settings.thresholds)) for each in (quorum, later))
            assert now == then, f"after row {row.sequence}, {passed_ms} ms later"
    assert checked > 20


def conditions(evaluation: Evaluation) -> list[tuple[object, ...]]:
    return [(one.rule, one.subject, one.severity) for one in evaluation.findings]
