"""One sink: where alerts are told. An entry of `sinks` is a text, as `--sink` takes it, or one kind with its keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, SecretStr, field_validator, model_validator
from pydantic_core import CoreSchema

from connectors.secret import Secret
from connectors.sinks import sink_config
from connectors.sinks.links import Links
from connectors.sinks.sink_config import Place, Wanted
from streaming.config.kafka_sink import KafkaSection
from streaming.config.people_sinks import AppriseSection, PagerdutySection, SlackSection
from streaming.config.section import Section
from streaming.config.sink_options import PeopleSection, SinkSection

KINDS = (
    "console, jsonl:PATH, webhook:URL, alertmanager:URL, kafka:HOST:PORT,…/TOPIC, slack:WEBHOOK-URL, "
    "pagerduty:ROUTING-KEY, apprise:URL"
)
"""The texts that `--sink` takes."""
_KEYS = {
    "jsonl": "path",
    "webhook": "url",
    "alertmanager": "url",
    "slack": "webhook_url",
    "pagerduty": "routing_key",
    "apprise": "url",
}
"""What the text behind the kind is. A secret may stand in a file: `@FILE`."""
_FILE = "_file"


class ConsoleSection(SinkSection):
    """The job's own stderr."""

    def place(self) -> Place:
        """Where it is."""
        return sink_config.Console()


class JsonlSection(SinkSection):
    """A file with one line a transition."""

    path: Path

    @field_validator("path")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser()

    def place(self) -> Place:
        """Where it is."""
        return sink_config.Jsonl(path=self.path)


class WebhookSection(PeopleSection):
    """Any HTTP server: one JSON document a notice, by POST."""

    url: SecretStr | None = None
    """https://HOST/PATH; never shown but for its host."""
    url_file: Path | None = None
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Further headers, as `Authorization`."""
    header_files: Mapping[str, Path] = Field(default_factory=dict)
    """The same, each value in a file."""
    signing_key: SecretStr | None = None
    """Signs each document: the header X-Kraftwatch-Signature."""
    signing_key_file: Path | None = None
    ca_file: Path | None = None
    """Certificate authorities (PEM) to trust instead of the system's."""

    @model_validator(mode="after")
    def _whole(self) -> "WebhookSection":
        self.required("url")
        twice = {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}
        if twice:
            raise ValueError(f"the header {min(twice)} stands in headers and in header_files: give it once")
        return self

    def place(self) -> Place:
        """Where it is."""
        url = self.secret("url")
        assert url is not None
        given = ((name, Secret(text=text.get_secret_value())) for name, text in self.headers.items())
        return sink_config.Webhook(
            url=url,
            headers=(*given, *((name, Secret(file=file)) for name, file in self.header_files.items())),
            signing_key=self.secret("signing_key"),
            ca_file=self.ca_file,
        )


class AlertmanagerSection(SinkSection):
    """One Alertmanager. Of several that are one cluster, each is an entry of its own: each must be told."""

    url: SecretStr | None = None
    """http://HOST:9093, without /api/v2/alerts; never shown but for its host."""
    url_file: Path | None = None
    username: str | None = None
    """For basic authentication, with `password` or `password_file`."""
    password: SecretStr | None = None
    password_file: Path | None = None
    token: SecretStr | None = None
    """A bearer's, instead of a user name and a password."""
    token_file: Path | None = None
    ca_file: Path | None = None
    """Certificate authorities (PEM) to trust instead of the system's."""

    @model_validator(mode="after")
    def _whole(self) -> "AlertmanagerSection":
        self.required("url")
        password, token = self.secret("password"), self.secret("token")
        if (self.username is None) != (password is None):
            raise ValueError("username and password (or password_file) go together: give both or none")
        if password is not None and token is not None:
            raise ValueError("give a password or a token, not both")
        return self

    def place(self) -> Place:
        """Where it is."""
        url = self.secret("url")
        assert url is not None
        return sink_config.Alertmanager(
            url=url,
            username=self.username,
            password=self.secret("password"),
            token=self.secret("token"),
            ca_file=self.ca_file,
        )


class SinkEntry(Section):
    """One entry of `sinks`: exactly one kind."""

    console: ConsoleSection | None = None
    jsonl: JsonlSection | None = None
    webhook: WebhookSection | None = None
    alertmanager: AlertmanagerSection | None = None
    slack: SlackSection | None = None
    pagerduty: PagerdutySection | None = None
    apprise: AppriseSection | None = None
    kafka: KafkaSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return _entry(value)
        if not isinstance(value, dict | SinkEntry):
            raise ValueError("an entry is a text, as --sink takes it, or one kind with its keys: `- slack: {…}`")  # noqa: TRY004 - pydantic hears ValueError
        if isinstance(value, dict):
            if len(value) != 1:
                raise ValueError("one entry is one kind of sink with its keys under it: write `- slack: {…}`")
            return {kind: {} if keys is None else keys for kind, keys in value.items()}
        return value

    def wanted(self, links: Links) -> Wanted:
        """The plain value that sinks are opened by."""
        (kind,) = self.model_fields_set
        section: SinkSection = getattr(self, kind)
        return section.wanted(links)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """For editors: an object of one key, or a text."""
        entry = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{**entry, "minProperties": 1, "maxProperties": 1}, {"type": "string", "pattern": "^[a-z]+"}]}


def _entry(text: str) -> Mapping[str, Any]:
    """What a text of `--sink` says, as the mapping that says the same. What stands behind the kind may be a secret."""
    kind, colon, rest = text.partition(":")
    if kind == "console":
        if colon:
            raise ValueError("console takes nothing behind it")
        return {kind: {}}
    if kind == "kafka":
        addresses, slash, topic = rest.rpartition("/")
        if not slash:
            raise ValueError("kafka says not where: write kafka:HOST:PORT,HOST:PORT/TOPIC")
        return {kind: {"bootstrap": addresses.split(","), "topic": topic}}
    if kind not in _KEYS:
        # What is no word may be a secret that lost the kind before it.
        named = f"'{kind}'" if not kind or (kind.isalpha() and len(kind) <= 20) else "that"
        raise ValueError(f"{named} is not a kind of sink; known are {KINDS}")
    if not rest:
        raise ValueError(f"{kind} says not where; known are {KINDS}")
    if rest.startswith("@") and kind != "jsonl":
        return {kind: {_KEYS[kind] + _FILE: rest[1:]}}
    return {kind: {_KEYS[kind]: rest}}


Sinks = Annotated[tuple[SinkEntry, ...], Field(min_length=1)]
