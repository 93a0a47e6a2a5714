"""docs/alert.schema.json accepts every line that kraftwatch writes, and nothing else."""

import json
from typing import Any

import pytest

from connectors.sinks.alert_json import to_line, to_object
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.unit.connectors.sinks.sink_alerts import ALERT_SCHEMA, NOON_MS, alert

LINE = to_object(alert(), NOON_MS)


@pytest.mark.parametrize(
    "changed",
    [
        *({"severity": severity} for severity in Severity),
        {"offset": None, "remedy": (), "evidence": {}},
        {"cluster_id": "", "evidence": {"age_s": float("nan")}},
        {"started_at_ms": Millis(0), "observed_at_ms": Millis(1)},
        {"summary": "broken \udc80 name"},
        {"late_ms": Millis(60_000)},
    ],
)
def test_the_schema_accepts_rare_values(changed: dict[str, Any]) -> None:
    ALERT_SCHEMA.validate(json.loads(to_line(alert(**changed), NOON_MS)))


@pytest.mark.parametrize("field", LINE)
def test_the_schema_rejects_a_missing_field_or_another_type(field: str) -> None:
    assert not ALERT_SCHEMA.is_valid({name: value for name, value in LINE.items() if name != field})
    assert not ALERT_SCHEMA.is_valid({**LINE, field: 1.5})
