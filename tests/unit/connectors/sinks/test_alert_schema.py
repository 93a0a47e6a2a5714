"""docs/alert.schema.json accepts every line that kraftwatch writes, and nothing else."""

import json
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from connectors.sinks.alert_json import to_line, to_object
from rules.alert import AlertState
from rules.evaluate import ALL_RULES
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.situation.case import alerts_of, all_cases
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parents[4] / "docs" / "alert.schema.json").read_text())
SCHEMA = Draft202012Validator(PUBLISHED)
LINE = to_object(alert(), NOON_MS)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_the_schema_accepts_every_line_of_every_rule(rule: str) -> None:
    cases = (case for case in all_cases() if case.rule == rule)
    written = (one for case in cases for observed in case.observed() for one in alerts_of(observed))
    for fired, state in zip(written, cycle(AlertState)):
        SCHEMA.validate(json.loads(to_line(replace(fired, state=state), NOON_MS)))


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
    SCHEMA.validate(json.loads(to_line(alert(**changed), NOON_MS)))


@pytest.mark.parametrize("field", LINE)
def test_the_schema_rejects_a_missing_field_or_another_type(field: str) -> None:
    assert not SCHEMA.is_valid({name: value for name, value in LINE.items() if name != field})
    assert not SCHEMA.is_valid({**LINE, field: 1.5})
