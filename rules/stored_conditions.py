"""The tracked conditions of one cluster as the JSON document of a checkpoint."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rules.finding import Severity
from rules.lifecycle import TrackedCondition, TrackedConditions
from rules.model.identifiers import Millis

_STORED_KEYS = {"notified_severity": "told", "age_at_start_ms": "stood_ms"}
"""Fields whose key in a checkpoint differs from their name."""
_STORED_NAMES = {each.name: _STORED_KEYS.get(each.name, each.name) for each in fields(TrackedCondition)}
"""Each field's key in a checkpoint."""


def to_document(tracked: TrackedConditions) -> dict[str, Any]:
    """Returns the tracked conditions as the JSON document of a checkpoint."""
    conditions = {
        key: {stored: getattr(condition, name) for name, stored in _STORED_NAMES.items()}
        for key, condition in tracked.conditions.items()
    }
    return {"now_ms": tracked.now_ms, "standings": conditions}


def from_document(document: Mapping[str, Any]) -> TrackedConditions:
    """Reads the tracked conditions from the JSON document of a checkpoint.

    Raises:
        ValueError, TypeError, KeyError: the document is not one that `to_document` returns.
    """
    conditions = {key: _condition(stored) for key, stored in document["standings"].items()}
    return TrackedConditions(now_ms=Millis(document["now_ms"]), conditions=conditions)


def _condition(stored: Mapping[str, Any]) -> TrackedCondition:
    names = {key: name for name, key in _STORED_KEYS.items()}
    fields = {names.get(key, key): value for key, value in stored.items()}
    severity = fields.pop("notified_severity")
    return TrackedCondition(**fields, notified_severity=None if severity is None else Severity(str(severity)))
