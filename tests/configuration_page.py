"""The tables of docs/configuration.md.

The keys, defaults and meanings come from the models.
"""

from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from connectors.settings.sections import HttpSection, LoginSection
from connectors.sinks.sink_config import PeopleSection, SinkSection
from connectors.sinks.sink_entry import SINK_SECTIONS
from streaming.config import Config
from streaming.config.cluster_section import ClusterDefaults, ClusterSection, RuleSection
from streaming.config.maintenance import MaintenanceSection
from streaming.config.relay_section import RelaySection
from streaming.config.reload import FIXED
from streaming.config.root import HeartbeatSection, OtlpSection, PipelineSection
from tests.page_tables import DOCS, table, with_tables

PAGE = DOCS / "configuration.md"
_NO_KEYS = "It has no other keys.\n"
_LOGIN = " It has the keys of TLS and SASL of `defaults` too."


def sections() -> dict[str, tuple[type[BaseModel], type[BaseModel] | None]]:
    """Returns by table name: the model, and the model whose keys are in another table."""
    return {
        "top": (Config, None),
        "cluster": (ClusterSection, ClusterDefaults),
        "defaults": (ClusterDefaults, None),
        "maintenance": (MaintenanceSection, None),
        "heartbeat": (HeartbeatSection, None),
        "otlp": (OtlpSection, HttpSection),
        "relay": (RelaySection, LoginSection),
        "pipeline": (PipelineSection, None),
        "rules": (RuleSection, None),
        "sinks": (SinkSection, None),
        "people": (PeopleSection, SinkSection),
    }


def page() -> str:
    """Returns the page with its tables generated from the models."""
    tables = {name: model_table(model, excluded) for name, (model, excluded) in sections().items()}
    return with_tables(PAGE, {**tables, "sink-kinds": kinds()})


def kinds() -> str:
    """Returns a paragraph and a table for each kind of sink, from its section."""
    return "\n".join(
        f"`{kind}`: {section.__doc__}{_LOGIN if issubclass(section, LoginSection) else ''}\n\n"
        f"{model_table(section, PeopleSection) or _NO_KEYS}"
        for kind, section in SINK_SECTIONS.items()
    )


def model_table(model: type[BaseModel], excluded: type[BaseModel] | None) -> str:
    """Returns the table of a model's keys, without those that mean the same in the excluded model."""
    elsewhere = {name: field.description for name, field in excluded.model_fields.items()} if excluded else {}
    known = {name for name, field in model.model_fields.items() if elsewhere.get(name, "") == field.description}
    if excluded is PeopleSection and issubclass(model, LoginSection):
        known |= set(LoginSection.model_fields)
    rows = [
        " ".join(f"| {key(name, field)}{mark(model, name)} | {meaning(field)} |".split())
        for name, field in model.model_fields.items()
        if name not in known
    ]
    return table("| key | meaning |", rows) if rows else ""


def key(name: str, field: FieldInfo) -> str:
    """Returns a key with its default as it is written in YAML."""
    written = field.alias or name
    if field.is_required():
        return f"`{written}` (required)"
    return f"`{written}{default(field)}`"


def mark(model: type[BaseModel], name: str) -> str:
    """Returns the mark of a key of which a change needs a restart, or nothing."""
    return "\N{DAGGER}" if model is Config and name in FIXED else ""


def meaning(field: FieldInfo) -> str:
    """Returns the description of a key."""
    return (field.description or "").replace("|", "\\|")


def default(field: FieldInfo) -> str:
    """Returns the default as it follows the key in YAML; nothing for an empty one."""
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is PydanticUndefined or value is None or value in ((), {}) or isinstance(value, BaseModel):
        return ""
    if isinstance(value, tuple) and isinstance(value[0], BaseModel):
        return ": [console]"
    return f": {plain(value)}"


def plain(value: Any) -> str:
    """Returns a value in YAML."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "[" + ", ".join('"*"' if each == "*" else str(each) for each in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
