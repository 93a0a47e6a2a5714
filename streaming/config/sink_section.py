"""The configuration of one sink: a text as `--sink` takes it, or one kind with its keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, SecretStr, field_validator, model_validator
from pydantic_core import CoreSchema

from connectors.secret import Secret
from connectors.sinks import sink_config
from connectors.sinks.address_checks import alertmanager_url_problem
from connectors.sinks.links import MessageLinks
from connectors.sinks.sink_config import SinkConfig, SinkSpec
from streaming.config.kafka_sink import KafkaSection
from streaming.config.people_sinks import AppriseSection, PagerdutySection, SlackSection
from streaming.config.placed_error import placed_error
from streaming.config.section import Section
from streaming.config.sink_options import PeopleSection, SinkSection

KINDS = (
    "console, jsonl:PATH, webhook:URL, alertmanager:URL, kafka:HOST:PORT,…/TOPIC, slack:WEBHOOK-URL, "
    "pagerduty:ROUTING-KEY, apprise:URL"
)
"""The forms that `--sink` takes."""
_KEYS = {
    "jsonl": "path",
    "webhook": "url",
    "alertmanager": "url",
    "slack": "webhook_url",
    "pagerduty": "routing_key",
    "apprise": "url",
}
"""The key that the text after the kind sets. A secret may be in a file: `@FILE`."""
_FILE = "_file"


class ConsoleSection(SinkSection):
    """The stderr of the job."""

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        return sink_config.Console()


class JsonlSection(SinkSection):
    """A file with one line per transition."""

    path: Path

    @field_validator("path")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser()

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
        return sink_config.Jsonl(path=self.path)


class WebhookSection(PeopleSection):
    """An HTTP server: one JSON document per notification, by POST."""

    url: SecretStr | None = None
    """https://HOST/PATH; only the host is ever printed."""
    url_file: Path | None = None
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    """Further headers, such as `Authorization`."""
    header_files: Mapping[str, Path] = Field(default_factory=dict)
    """Further headers with each value in a file."""
    signing_key: SecretStr | None = None
    """The key that signs each document: header X-Kraftwatch-Signature."""
    signing_key_file: Path | None = None
    ca_file: Path | None = None
    """PEM: trusted certificate authorities instead of the system's."""

    @model_validator(mode="after")
    def _whole(self) -> "WebhookSection":
        self.require("url")
        twice = {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}
        if twice:
            raise ValueError(f"the header {min(twice)} is in headers and in header_files: give it once")
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
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
    """One Alertmanager. Each member of an Alertmanager cluster needs an entry, because each must be notified."""

    url: SecretStr | None = None
    """http://HOST:9093, without /api/v2/alerts; only the host is ever printed."""
    url_file: Path | None = None
    username: str | None = None
    """For basic authentication, with `password` or `password_file`."""
    password: SecretStr | None = None
    password_file: Path | None = None
    token: SecretStr | None = None
    """A bearer token, instead of a user name and a password."""
    token_file: Path | None = None
    ca_file: Path | None = None
    """PEM: trusted certificate authorities instead of the system's."""

    @model_validator(mode="after")
    def _whole(self) -> "AlertmanagerSection":
        self.require("url")
        problem = None if self.url is None else alertmanager_url_problem(self.url.get_secret_value())
        if problem is not None:
            raise placed_error(problem, "url")
        password, token = self.secret("password"), self.secret("token")
        if (self.username is None) != (password is None):
            raise ValueError("username and password (or password_file) go together: give both or none")
        if password is not None and token is not None:
            raise ValueError("give a password or a token, not both")
        return self

    def sink_config(self) -> SinkConfig:
        """Returns the settings of the sink's kind and address."""
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
            raise ValueError("an entry is a text as --sink takes it, or one kind with its keys: `- slack: {…}`")  # noqa: TRY004 - pydantic handles ValueError
        if isinstance(value, dict):
            if len(value) != 1:
                raise ValueError("an entry is one kind of sink with its keys: write `- slack: {…}`")
            return {kind: {} if keys is None else keys for kind, keys in value.items()}
        return value

    @property
    def kind(self) -> str:
        """The kind of sink, such as `slack`."""
        (kind,) = self.model_fields_set
        return kind

    @property
    def section(self) -> SinkSection:
        """The keys of the sink."""
        section: SinkSection = getattr(self, self.kind)
        return section

    def sink_spec(self, links: MessageLinks) -> SinkSpec:
        """Returns what the sink is opened with."""
        return self.section.sink_spec(links)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Returns the schema for editors: an object with one key, or a text."""
        entry = handler.resolve_ref_schema(handler(schema))
        return {"anyOf": [{**entry, "minProperties": 1, "maxProperties": 1}, {"type": "string", "pattern": "^[a-z]+"}]}


def _entry(text: str) -> Mapping[str, Any]:
    """Returns the mapping that a text of `--sink` stands for. The text after the kind may be a secret."""
    kind, colon, rest = text.partition(":")
    if kind == "console":
        if colon:
            raise ValueError("console takes no value")
        return {kind: {}}
    if kind == "kafka":
        addresses, slash, topic = rest.rpartition("/")
        if not slash:
            raise ValueError("kafka needs brokers and a topic: write kafka:HOST:PORT,HOST:PORT/TOPIC")
        return {kind: {"bootstrap": addresses.split(","), "topic": topic}}
    if kind not in _KEYS:
        # A text that is not a word may be a secret without its kind: it is not printed.
        shown = f"'{kind}'" if not kind or (kind.isalpha() and len(kind) <= 20) else "this text"
        raise ValueError(f"{shown} is not a kind of sink; the kinds are {KINDS}")
    if not rest:
        raise ValueError(f"{kind} needs a value; the kinds are {KINDS}")
    if rest.startswith("@") and kind != "jsonl":
        return {kind: {_KEYS[kind] + _FILE: rest[1:]}}
    return {kind: {_KEYS[kind]: rest}}


Sinks = Annotated[tuple[SinkEntry, ...], Field(min_length=1)]
