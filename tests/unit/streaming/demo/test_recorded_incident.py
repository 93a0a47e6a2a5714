"""The recorded incident that `kraftwatch demo --recorded` plays: what it sends, and what its page shows."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.ledger import Ledger
from connectors.sinks.jsonl import JsonlSink
from connectors.store.tables import job_database
from streaming.demo.recorded_incident import CLUSTER, INCIDENT, PlayedIncident, incident_rows
from streaming.status.status_store import StatusStore


@dataclass
class Played:
    """An incident with a page and a file of alerts."""

    folder: Path

    def __post_init__(self) -> None:
        self.store, self.file = StatusStore([CLUSTER]), self.folder / "alerts.jsonl"
        self.incident = PlayedIncident(Ledger(job_database(self.folder)), [JsonlSink(self.file)], self.store)

    def alerts(self, state: str) -> list[Any]:
        lines = [json.loads(line) for line in self.file.read_text().splitlines()]
        return [line for line in lines if line["state"] == state]


@pytest.fixture
def played(tmp_path: Path) -> Played:
    return Played(tmp_path)


def test_the_alerts_of_its_faults_fire_and_that_of_the_broker_resolves(played: Played) -> None:
    rows = incident_rows()
    played.incident.play(rows, lambda _: False)

    fired, resolved = (
        [(one["rule"], one["subject"]) for one in played.alerts(state)] for state in ("firing", "resolved")
    )
    assert sorted(fired) == [("broker-fenced", "broker 102"), ("failure-tolerance", "quorum")]
    assert resolved == [("broker-fenced", "broker 102")]
    (fenced,) = (one for one in played.alerts("firing") if one["rule"] == "broker-fenced")
    assert "receives no heartbeats from it" in fenced["summary"]
    assert not any("late_ms" in one for one in played.alerts("firing"))
    newest = played.store.newest(CLUSTER)
    assert newest is not None
    assert [one.rule for one in newest.status.findings] == ["failure-tolerance"]
    assert played.incident.now_ms == rows[-1].observed_at_ms


def test_it_ends_when_it_is_to_end(played: Played) -> None:
    waits = iter([False, False, True])
    rows = incident_rows()
    played.incident.play(rows, lambda _: next(waits))

    assert rows[0].observed_at_ms < played.incident.now_ms < rows[len(rows) // 2].observed_at_ms


def test_the_base_package_hardly_grows_by_it() -> None:
    assert INCIDENT.stat().st_size < 1_000_000
