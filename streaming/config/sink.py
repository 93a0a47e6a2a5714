"""One sink: where alerts are told. An entry of `sinks` is a text, as `--sink` takes it, or one kind with its keys."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, SecretStr, field_validator, model_validator
from pydantic_core import CoreSchema

from connectors.sinks import place
from connectors.sinks.links import Links
from connectors.sinks.place import Place, Wanted
from connectors.sinks.secret import Secret
from rules.finding import Severity
from rules.telling.route import Route
from streaming.config.section import Duration, Section

KINDS = "console, jsonl:PATH, webhook:URL, alertmanager:URL"
"""The texts that `--sink` takes."""
_FILE = "_file"
_REPEAT_S = 4 * 3_600.0


class SinkSection(Section):
    """What every kind of sink takes."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9#@][A-Za-z0-9#@._:/-]*$", max_length=100)
    """How the ledger calls it; renamed, it is told once more what is firing. Two sinks of one place need one each."""
    min_severity: Severity = Severity.INFO
    """It is told nothing below: `critical` for a pager. What it was told once, it is told the end of."""
    clusters: tuple[str, ...] = Field(default=("*",), min_length=1)
    """Names of clusters, or patterns with `*` and `?`: it is told of these alone."""

    @model_validator(mode="after")
    def _one_of_each(self) -> "SinkSection":
        for key in type(self).model_fields:
            text = key.removesuffix(_FILE)
            if key != text and getattr(self, key) is not None and getattr(self, text, None) is not None:
                raise ValueError(f"give {text} or {key}, not both")
        return self

    def wanted(self, links: Links) -> Wanted:
        """The plain value that sinks are opened by."""
        route = Route(min_severity=self.min_severity, clusters=self.clusters)
        repeat_s = self.repeat if isinstance(self, PeopleSection) and self.repeat != "never" else None
        return Wanted(place=self.place(), links=links, name=self.name, route=route, repeat_s=repeat_s)

    def place(self) -> Place:
        """Where it is."""
        raise NotImplementedError

    def _secret(self, key: str) -> Secret | None:
        text, file = getattr(self, key), getattr(self, key + _FILE)
        if text is None and file is None:
            return None
        return Secret(text=None if text is None else text.get_secret_value(), file=file)

    def _required(self, key: str) -> None:
        if getattr(self, key) is None and getattr(self, key + _FILE) is None:
            raise ValueError(f"{key} (or {key}{_FILE}) is missing")


class PeopleSection(SinkSection):
    """What a sink for people takes besides."""

    repeat: Duration | Literal["never"] = _REPEAT_S
    """After how long what still stands is told again: `4h`, `90m`, seconds, or `never`."""


class ConsoleSection(SinkSection):
    """The job's own stderr."""

    def place(self) -> Place:
        """Where it is."""
        return place.Console()


class JsonlSection(SinkSection):
    """A file with one line a transition."""

    path: Path

    @field_validator("path")
    @classmethod
    def _home(cls, value: Path) -> Path:
        return value.expanduser()

    def place(self) -> Place:
        """Where it is."""
        return place.Jsonl(path=self.path)


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
        self._required("url")
        twice = {name.lower() for name in self.headers} & {name.lower() for name in self.header_files}
        if twice:
            raise ValueError(f"the header {min(twice)} stands in headers and in header_files: give it once")
        return self

    def place(self) -> Place:
        """Where it is."""
        url = self._secret("url")
        assert url is not None
        given = ((name, Secret(text=text.get_secret_value())) for name, text in self.headers.items())
        return place.Webhook(
            url=url,
            headers=(*given, *((name, Secret(file=file)) for name, file in self.header_files.items())),
            signing_key=self._secret("signing_key"),
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
        self._required("url")
        password, token = self._secret("password"), self._secret("token")
        if (self.username is None) != (password is None):
            raise ValueError("username and password (or password_file) go together: give both or none")
        if password is not None and token is not None:
            raise ValueError("give a password or a token, not both")
        return self

    def place(self) -> Place:
        """Where it is."""
        url = self._secret("url")
        assert url is not None
        return place.Alertmanager(
            url=url,
            username=self.username,
            password=self._secret("password"),
            token=self._secret("token"),
            ca_file=self.ca_file,
        )


class SinkEntry(Section):
    """One entry of `sinks`: exactly one kind."""

    console: ConsoleSection | None = None
    jsonl: JsonlSection | None = None
    webhook: WebhookSection | None = None
    alertmanager: AlertmanagerSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            return _entry(value)
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
    keys = {"jsonl": "path", "webhook": "url", "alertmanager": "url"}
    if kind not in keys:
        raise ValueError(f"'{kind[:20]}' is not a kind of sink; known are {KINDS}")
    if not rest:
        raise ValueError(f"{kind} says not where; known are {KINDS}")
    if rest.startswith("@") and kind != "jsonl":
        return {kind: {keys[kind] + _FILE: rest[1:]}}
    return {kind: {keys[kind]: rest}}


Sinks = Annotated[tuple[SinkEntry, ...], Field(min_length=1)]
