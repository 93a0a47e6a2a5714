"""The register of all kinds of sinks: one entry of `sinks` in the configuration, or a text as `--sink` takes it."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from connectors.settings.sections import Section
from connectors.sinks.alertmanager.config import AlertmanagerSection
from connectors.sinks.apprise import AppriseSection
from connectors.sinks.console import ConsoleSection
from connectors.sinks.jsonl import JsonlSection
from connectors.sinks.kafka_sink import KafkaSection
from connectors.sinks.pagerduty.config import PagerdutySection
from connectors.sinks.sink_config import SinkSection
from connectors.sinks.slack.config import SlackSection
from connectors.sinks.webhook import WebhookSection


class SinkEntry(Section):
    """One entry of `sinks`: exactly one kind."""

    console: ConsoleSection | None = None
    jsonl: JsonlSection | None = None
    webhook: WebhookSection | None = None
    alertmanager: AlertmanagerSection | None = None
    kafka: KafkaSection | None = None
    slack: SlackSection | None = None
    pagerduty: PagerdutySection | None = None
    apprise: AppriseSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return _entry(value)
        if not isinstance(value, dict | SinkEntry):
            raise ValueError("an entry is a text as --sink takes it, or one kind with its keys: `- slack: {…}`")  # noqa: TRY004 - pydantic handles ValueError
        if isinstance(value, dict):
            if len(value) != 1:
                raise ValueError("an entry is one kind of sink with its keys: write `- slack: {…}`")
            return {kind: {} if keys is None else keys for kind, keys in value.items()}
        return value

    @property
    def section(self) -> SinkSection:
        """The keys of the sink."""
        (kind,) = self.model_fields_set
        section: SinkSection = getattr(self, kind)
        return section

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Returns the schema for editors: an object with one key, or a text."""
        entry = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{**entry, "minProperties": 1, "maxProperties": 1}, {"type": "string", "pattern": "^[a-z]+"}]}


SINK_SECTIONS: Mapping[str, type[SinkSection]] = {
    kind: get_args(field.annotation)[0] for kind, field in SinkEntry.model_fields.items()
}
"""The section of each kind of sink."""
SINK_FORMS = ", ".join(section.form for section in SINK_SECTIONS.values())
"""What `--sink` takes."""


def _entry(text: str) -> Mapping[str, Any]:
    """Returns the mapping that a text of `--sink` stands for. The text after the kind may be a secret."""
    kind, colon, rest = text.partition(":")
    if kind not in SINK_SECTIONS:
        # A text that is not a word may be a secret without its kind: it is not printed.
        shown = f"'{kind}'" if not kind or (kind.isalpha() and len(kind) <= 20) else "this text"
        raise ValueError(f"{shown} is not a kind of sink; the kinds are {SINK_FORMS}")
    section = SINK_SECTIONS[kind]
    if section.form == kind:
        if colon:
            raise ValueError(f"{kind} takes no value")
        return {kind: {}}
    if not rest:
        raise ValueError(f"{kind} needs a value; the kinds are {SINK_FORMS}")
    return {kind: section.keys_of_text(rest)}
