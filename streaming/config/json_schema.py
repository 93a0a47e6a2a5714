"""The JSON schema of the configuration, for editors."""

from typing import Any

from streaming.config.root import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def config_json_schema() -> dict[str, Any]:
    """Returns every key with its type, default and description; further checks of pydantic are not in it."""
    made: dict[str, Any] = {"$schema": DIALECT, **Config.model_json_schema(), "title": "kraftwatch"}
    cluster = made["$defs"]["ClusterSection"]
    # An editor validates a cluster alone, without the defaults.
    assert set(cluster["required"]) == {"name", "bootstrap"}
    return made
