"""The JSON schema of the configuration, for editors."""

from typing import Any

from streaming.config.root import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_json_schema() -> dict[str, Any]:
    """Every key with its type, default and description; what pydantic checks beyond that is not in it."""
    made: dict[str, Any] = {"$schema": DIALECT, **Config.model_json_schema(), "title": "kraftwatch"}
    cluster = made["$defs"]["ClusterSection"]
    # An editor looks at a cluster by itself: what it has from the defaults is not seen there.
    assert set(cluster["required"]) == {"name", "bootstrap"}
    return made
