"""docs/status.schema.json, from the types of `ClusterStatus` (`make goldens`)."""

import json
import re
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from rules.model.history import Recovery
from streaming.status.cluster_status import json_name, schema_with_iso_times, status_adapter

PATH = Path(__file__).parents[1] / "docs" / "status.schema.json"
_DOCSTRINGS = ConfigDict(use_attribute_docstrings=True)
_HEAD = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "ClusterStatus",
    "$comment": "Written by `make goldens` from streaming/status/cluster_status.py. This is the object of "
    "`kraftwatch status --json` and of the field `status` of `/api/clusters/NAME`. Later versions may add fields.",
}


class _EveryFieldRequired(GenerateJsonSchema):
    """Every field is written."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return True


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of the status object."""
    plain = status_adapter().json_schema(by_alias=True, mode="serialization", schema_generator=_EveryFieldRequired)
    parts = {name: schema_with_iso_times(part) for name, part in plain["$defs"].items()}
    # pydantic reads the docstrings of a class, not those of the one that it extends.
    extended = TypeAdapter(list[Recovery], config=_DOCSTRINGS).json_schema()["$defs"]["Recovery"]["properties"]
    described = {json_name(name): field.get("description") for name, field in extended.items()}
    for name, field in parts["RecoveringPartition"]["properties"].items():
        field.setdefault("description", described.get(name))
    return {**_HEAD, **tidy({**schema_with_iso_times(plain), "$defs": parts})}


def text(found: dict[str, Any]) -> str:
    """Returns a schema as the content of a file."""
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def _description(docstring: str) -> str:
    """Returns a docstring in one line and in the words of JSON."""
    text = re.sub("`([a-z_]+)`", lambda name: f"`{json_name(name[1])}`", " ".join(docstring.split()))
    return text.replace("None", "null").replace("True", "true")


def tidy(value: Any) -> Any:
    """Removes titles, which repeat names, and empty defaults: every field is written. Joins lines of descriptions."""
    if isinstance(value, list):
        return [tidy(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _description(each) if key == "description" and isinstance(each, str) else tidy(each)
        for key, each in value.items()
        if not (key == "title" and isinstance(each, str)) and not (key == "default" and each in ([], None))
    }
