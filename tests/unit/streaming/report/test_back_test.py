"""Back-tests of the recorded rows of a real quorum, with which nothing is wrong."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from connectors.observations.observation import Observation, ObservationKind
from rules.evaluate import thresholds_for
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.back_test import back_test
from tests.recordings import recorded
from tests.unit.streaming.report.repeated_rows import repeated

MINUTES = 12


@pytest.fixture(scope="module")
def rows() -> Sequence[Observation]:
    hour = repeated(recorded("quiet-quorum"), 60 * MINUTES)
    return [replace(row, sequence=number) for number, row in enumerate(hour)]


def alerts(rows: Sequence[Observation], overrides: dict[str, float] | None = None) -> list[tuple[str, str, int]]:
    """Returns rule, state and the second since the first row of each alert."""
    settings = ClusterSettings(name="a", thresholds=thresholds_for(overrides or {}))
    start_ms = rows[0].observed_at_ms
    found = back_test(rows, lambda _: settings)
    return [(one.rule, one.state.value, (one.observed_at_ms - start_ms) // 1_000) for one in found]


def test_a_quiet_quorum_has_no_alert(rows: Sequence[Observation]) -> None:
    assert alerts(rows) == []


def test_an_alert_that_time_alone_makes_has_its_time(rows: Sequence[Observation]) -> None:
    assert alerts(rows, {"quorum-shape.most": 2.0, "quorum-shape.hold": 600.0}) == [("quorum-shape", "firing", 600)]


def test_a_replica_that_stops_fetching_is_found(rows: Sequence[Observation]) -> None:
    stopped = rows[len(rows) // 2]

    def changed(row: Observation) -> Observation:
        if row.kind is not ObservationKind.QUORUM or row.sequence < stopped.sequence:
            return row
        polled = json.loads(row.payload)
        polled["voters"][0] |= {"last_fetch_ms": 1, "last_caught_up_ms": 1}
        return replace(row, payload=json.dumps(polled).encode())

    assert {rule for rule, _, _ in alerts([changed(row) for row in rows])} == {"failure-tolerance"}
