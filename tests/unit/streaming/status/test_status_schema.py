"""docs/status.schema.json: generated from the types, with a description on every field, and true of real statuses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from rules.evaluate import thresholds_for
from streaming.query.from_log_dir import replay_log_dir
from streaming.query.recording import recorded_state
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import from_json, status_json, to_bytes
from tests.status_schema import PATH
from tests.unit.connectors.logdir.log_dirs import stopped_quorum
from tests.unit.streaming.status.situation_views import SITUATIONS
from tests.unit.streaming.status.statuses import job_status, status

SCHEMA: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Every object schema."""
    if isinstance(node, dict):
        if "properties" in node:
            yield node
        for each in node.values():
            yield from objects(each)
    elif isinstance(node, list):
        for each in node:
            yield from objects(each)


def test_schema_is_a_json_schema_of_2020_12() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_every_field_has_a_description() -> None:
    missing = [
        name for each in objects(SCHEMA) for name, field in each["properties"].items() if not field.get("description")
    ]
    assert missing == []


@pytest.mark.parametrize("name", SITUATIONS)
def test_status_and_job_status_satisfy_the_schema(name: str) -> None:
    validator = Draft202012Validator(SCHEMA)
    for plain in (status(SITUATIONS[name]), job_status(SITUATIONS[name])):
        validator.validate(json.loads(json.dumps(plain)))


def test_status_of_a_log_directory_satisfies_the_schema(tmp_path: Path) -> None:
    replayed = replay_log_dir(stopped_quorum(tmp_path) / "node-3")
    state = recorded_state(replayed, thresholds_for({}))
    made = cluster_status(state)
    Draft202012Validator(SCHEMA).validate(status_json(made))
    assert status_json(from_json(to_bytes(made))) == status_json(made)
