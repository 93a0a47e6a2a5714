"""Quiet rows wait, in the gatherer and in a relay's topic, and no alert is later than with rows of every second."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby
from random import Random

import pytest

from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.finding import Evaluation
from rules.model.identifiers import Millis
from tests.simulation.incidents import INCIDENTS
from tests.simulation.published_rows import PublishedRows, RelayedRows, times
from tests.simulation.recorded_simulation import NO_HOLD, SOME_INCIDENTS, RecordedIncident, RecordedSimulation
from tests.simulation.simulated_monitor import OVERRIDES, simulated_monitor

STEPS = 6_000


def share_of_publications(
    simulation: RecordedSimulation | RecordedIncident,
    overrides: Mapping[str, float] = OVERRIDES,
    kind: type[PublishedRows] = PublishedRows,
) -> float:
    """Asserts that the same alerts follow where quiet rows wait as with rows of every second, and none later.

    Returns:
        The share of publications that are left where rows wait.
    """
    bootstrap = simulation.gatherer.bootstrap
    each_second, waiting = (
        kind(simulated_monitor(bootstrap, overrides=overrides), quiet_rows_wait=waits) for waits in (False, True)
    )
    for _, rows in groupby(simulation.rows, key=lambda row: row.observed_at_ms):
        second = [*rows]
        each_second.second(second)
        waiting.second(second)
    before, now = times(each_second), times(waiting)
    assert {key: len(found) for key, found in now.items()} == {key: len(found) for key, found in before.items()}
    later = {
        key: [now_ms - before_ms for before_ms, now_ms in zip(found, now[key], strict=True) if now_ms > before_ms]
        for key, found in before.items()
    }
    assert {key: found for key, found in later.items() if found} == {}
    assert before
    return waiting.publications / each_second.publications


WAYS = pytest.mark.parametrize("kind", [PublishedRows, RelayedRows])


@WAYS
@pytest.mark.parametrize("seed", [1, pytest.param(5, marks=pytest.mark.long)])
def test_no_alert_is_later(seed: int, kind: type[PublishedRows]) -> None:
    simulation = RecordedSimulation(seed, polls_only=seed == 5)
    simulation.run(STEPS)
    assert share_of_publications(simulation, kind=kind) < 1


@pytest.mark.long
@WAYS
@pytest.mark.parametrize("seed", [2, 3, 4, *range(6, 60)])
def test_no_alert_is_later_with_other_seeds(seed: int, kind: type[PublishedRows]) -> None:
    simulation = RecordedSimulation(seed, polls_only=seed % 6 == 0)
    simulation.run(STEPS)
    share_of_publications(simulation, kind=kind)


@WAYS
@pytest.mark.parametrize("name", SOME_INCIDENTS)
def test_no_alert_of_an_incident_is_later(name: str, kind: type[PublishedRows]) -> None:
    simulation = RecordedIncident(1, INCIDENTS[name])
    simulation.happen()
    assert share_of_publications(simulation, NO_HOLD, kind) <= 1


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
@WAYS
@pytest.mark.parametrize("name", INCIDENTS)
def test_no_alert_of_any_incident_is_later(name: str, seed: int, kind: type[PublishedRows]) -> None:
    simulation = RecordedIncident(seed, INCIDENTS[name])
    simulation.happen()
    assert share_of_publications(simulation, NO_HOLD, kind) <= 1


@pytest.mark.parametrize("seed", range(1, 4))
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
