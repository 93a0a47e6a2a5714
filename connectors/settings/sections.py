"""What all settings have in common: sections of a file, durations, addresses, logins at Kafka clusters.

`streaming/config` holds the configuration file; a sink's own settings are in the sink's module.
"""

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    PlainValidator,
    SerializationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_after_validator_function

from connectors.errors import UsageError
from connectors.settings.secret import Secret, read_text

PLACED = "placed"
"""The type of these errors among pydantic's own ones."""
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that need a user name and a password."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_FORM = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?(?:e\+?0?[0-9])?)([smhd]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SCHEMA_PATTERN = "^[0-9]+([.][0-9]+)?(e[+]?[0-9]+)?[smhd]?$"


class Section(BaseModel):
    """A part of the configuration file: unknown keys are refused, values are immutable."""

    # The text under a key is its description in the JSON schema and in docs/configuration.md.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any) -> Any:
        """Refuses an unknown key before what it may be missing for, and says which key may be meant."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in value if isinstance(value, Mapping) else ():
            if key not in known and key not in cls.model_fields:
                near = difflib.get_close_matches(str(key), known, n=1)
                hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(known)}"
                raise placed_error(f"unknown key; {hint}", key)
        return value


def readable(path: Path, what: str) -> str:
    """Returns the text of a file that the configuration names; `what` is the key named in the error.

    Raises UsageError if the file cannot be read, or is not UTF-8.
    """
    try:
        return read_text(path)
    except UsageError as problem:
        raise UsageError(f"{what}: {problem}") from None


def placed_error(sentence: str, *keys: str | int) -> PydanticCustomError:
    """Returns an error for a validator to raise; `keys`: from the section that is validated to the value."""
    return PydanticCustomError(PLACED, "{sentence}", {"sentence": sentence, "keys": list(keys)})


def uri_scheme(text: str) -> str | None:
    """Returns the scheme of a URI, in lower case; None for a path."""
    found = _SCHEME.match(text)
    return None if found is None else found[1].lower()


def url_problem(text: str) -> str | None:
    """Returns what is wrong with the URL of a web server, without a part of it, which may be secret; None if valid."""
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and text.isprintable()
    except ValueError:
        valid = False
    return None if valid and " " not in text else "write https://HOST/PATH or http://HOST/PATH, without a blank"


def _checked_url(value: str) -> str:
    problem = url_problem(value)
    if problem is not None:
        raise ValueError(problem)
    return value


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a text."""

    pattern: str
    instead: str
    """What to write instead of a text without it."""

    def _checked(self, value: str) -> str:
        if re.search(self.pattern, value) is None:
            raise ValueError(self.instead)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Returns the schema that checks it."""
        return no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Returns the schema for editors."""
        return {**handler(schema), "pattern": self.pattern}


ValidUrl = AfterValidator(_checked_url)
"""Refuses a text that is not the URL of a web server: it would fail each request."""


def _local_folder(value: Path) -> Path:
    if (scheme := uri_scheme(str(value))) is not None:
        raise ValueError(f"expected a local folder, not a place in a file system of the scheme {scheme}")
    return value.expanduser()


LocalFolder = Annotated[Path, AfterValidator(_local_folder)]
"""A folder of this machine, perhaps below the user's `~`."""


def parse_seconds(text: str, unit: str = "s") -> float:
    """Returns a duration in seconds, of which a number without a unit is one; of another `unit`, a number of those.

    Raises:
        ValueError: naming the value and the expected form.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None or (found[2] and unit != "s"):
        expected = "seconds or a duration such as 30s, 5m, 1h" if unit == "s" else f"a number of {unit}"
        raise ValueError(f"invalid value '{text}': expected {expected}")
    return float(found[1]) * _SECONDS[found[2]]


def _seconds(value: Any) -> Any:
    return parse_seconds(value) if isinstance(value, str) else value


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(gt=0, allow_inf_nan=False),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": _SCHEMA_PATTERN}),
]
"""A duration of more than 0 seconds."""

DurationOrZero = Annotated[
    float,
    BeforeValidator(_seconds),
    Field(ge=0, allow_inf_nan=False),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": _SCHEMA_PATTERN}),
]
"""A duration of 0 seconds or more."""

ThresholdValue = Annotated[
    Any,
    WithJsonSchema({"type": ["number", "string"], "minimum": 0, "pattern": _SCHEMA_PATTERN}),
]
"""The value of a rule's threshold: a duration where its unit is seconds, else a number."""


def host_port(address: str) -> tuple[str, int]:
    """Returns HOST:PORT (or [V6]:PORT) as a pair. Raises ValueError if the address does not have this form."""
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"'{address}' is not HOST:PORT")
    return host, int(port)


def _checked_addresses(addresses: tuple[str, ...]) -> tuple[str, ...]:
    for address in addresses:
        host_port(address)
    return addresses


Bootstrap = Annotated[tuple[str, ...], Field(min_length=1), AfterValidator(_checked_addresses)]
"""HOST:PORT of nodes that are contacted first."""


def _secret(value: Any) -> Any:
    """Returns the secret that a text or `{file: PATH}` stands for."""
    match value:
        case str():
            return Secret(text=value)
        case {"file": str() | Path() as file, **more} if not more:
            return Secret(file=Path(file))
        case Secret():
            return value
        case _:
            raise ValueError("expected a text, or {file: PATH}")


def _as_written(secret: Secret, info: SerializationInfo) -> Any:
    """Returns what `_secret` reads: a secret is not for JSON."""
    return "***" if info.mode_is_json() else secret.text if secret.file is None else {"file": secret.file}


ConfiguredSecret: TypeAlias = Annotated[
    Secret,
    PlainValidator(_secret),
    PlainSerializer(_as_written),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "password", "writeOnly": True},
                {
                    "type": "object",
                    "properties": {"file": {"type": "string", "format": "path"}},
                    "required": ["file"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
"""A secret: a text, or `{file: PATH}` of a file with only the secret, which is read at each use."""


def checked_text(problem: Callable[[str], str | None]) -> AfterValidator:
    """Refuses a secret that is given as a text with something wrong; `problem` returns a sentence without the text."""

    def checked(value: Secret) -> Secret:
        found = None if value.text is None else problem(value.text)
        if found is not None:
            raise ValueError(found)
        return value

    return AfterValidator(checked)


SecretUrl: TypeAlias = Annotated[ConfiguredSecret, checked_text(url_problem)]
"""The URL of a web server, of which only the host is ever printed."""


class HttpSection(Section):
    """The keys of an HTTP server to which documents are sent."""

    url: SecretUrl
    """https://HOST/PATH; only the host is ever printed."""
    headers: Mapping[str, ConfiguredSecret] = Field(default_factory=dict)
    """Further headers, such as `Authorization`; each value is a secret."""
    ca_file: Path | None = None
    """PEM: trusted certificate authorities instead of the system's."""


class LoginSection(Section):
    """The keys of TLS and SASL."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """The listener's security protocol."""
    ssl_cafile: Path | None = None
    """PEM: the trusted certificate authorities; default: the system's."""
    ssl_certfile: Path | None = None
    """PEM: the client certificate, where the listener requires one (mutual TLS)."""
    ssl_keyfile: Path | None = None
    """PEM: the private key of the client certificate."""
    ssl_password: ConfiguredSecret | None = None
    """The password of the private key."""
    ssl_crlfile: Path | None = None
    """PEM: the revoked certificates."""
    ssl_check_hostname: bool = True
    """`false` verifies the certificate chain and the dates, but not the host name."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None = None
    """The login mechanism; required with SASL_PLAINTEXT and SASL_SSL."""
    sasl_plain_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_plain_password: ConfiguredSecret | None = None
    """For PLAIN and SCRAM."""
    sasl_oauth_token_file: Path | None = None
    """A file with an OAUTHBEARER token, read at each login."""

    @property
    def login_secrets(self) -> Mapping[str, Secret]:
        """The secrets that are given, by their keys."""
        token = self.sasl_oauth_token_file
        given = {
            "ssl_password": self.ssl_password,
            "sasl_plain_password": self.sasl_plain_password,
            "sasl_oauth_token_file": None if token is None else Secret(file=token),
        }
        return {key: secret for key, secret in given.items() if secret is not None}

    def check_login(self) -> None:
        """Checks that the keys fit together: otherwise the cluster would refuse the login later.

        Raises ValueError if a key is missing, or one is given that has no effect.
        """
        logs_in = self.security_protocol.startswith("SASL")
        if not logs_in and self.sasl_mechanism is not None:
            raise ValueError(
                f"sasl_mechanism is given, but security_protocol {self.security_protocol} never logs in: "
                "set SASL_SSL (or SASL_PLAINTEXT)"
            )
        if logs_in and self.sasl_mechanism is None:
            raise ValueError(
                f"security_protocol {self.security_protocol} needs sasl_mechanism "
                "(PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI)"
            )
        if self.sasl_mechanism == "OAUTHBEARER" and self.sasl_oauth_token_file is None:
            raise ValueError("sasl_mechanism OAUTHBEARER needs sasl_oauth_token_file")
        by_password = self.sasl_mechanism in BY_PASSWORD
        if by_password and not (self.sasl_plain_username and self.sasl_plain_password):
            raise ValueError(f"sasl_mechanism {self.sasl_mechanism} needs sasl_plain_username and sasl_plain_password")


NAME_CHARACTERS = "letters, digits, '.', '_' and '-'"
TopicName = Annotated[str, Field(max_length=249), Form(r"^[A-Za-z0-9._-]+$", f"write {NAME_CHARACTERS}")]


class TopicSection(LoginSection):
    """A topic of a Kafka cluster, reached through its brokers."""

    bootstrap: Bootstrap
    topic: TopicName
    create: bool = False
    """Whether a missing topic is created."""

    @model_validator(mode="after")
    def _login(self) -> "TopicSection":
        self.check_login()
        if self.sasl_mechanism == "GSSAPI":
            raise ValueError(
                "sasl_mechanism GSSAPI is not supported for topics: the wheel of confluent-kafka does not contain it"
            )
        return self


def unmatched(pattern: str, known: Collection[str], what: str) -> str | None:
    """Returns why a pattern has no effect, in one sentence with the nearest known name; None if it matches a name."""
    if any(fnmatchcase(name, pattern) for name in known):
        return None
    literal = pattern.lower().strip("*?")
    near = difflib.get_close_matches(literal, known, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(sorted(known))}"
    return f"'{pattern}' matches no {what}; {hint}"
