"""The configuration: one YAML file or a few options, checked wholly before anything starts.

Only this module knows pydantic models of the configuration; everything inside gets plain dataclasses.
Every mistake is one sentence that names the key, the place and what to do.
"""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from connectors.cluster import Cluster
from connectors.errors import UsageError
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.quorum import Access, Vantage


_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that log in with a user's name and password."""


class Section(BaseModel):
    """Every part of the file: unknown keys are refused, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ClusterSection(Section):
    """One cluster to watch."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
    """How alerts call it; part of the recorded state's identity, so renaming starts anew."""
    bootstrap: tuple[str, ...] = Field(min_length=1)
    """HOST:PORT of controllers, all of them if possible. With brokers only, the log cannot be read."""
    cluster_id: str | None = None
    """Needed only where DescribeCluster is denied to the monitor."""
    vantage: Vantage = Vantage.INSIDE
    """`outside` when the monitor does not share the controllers' name service or network."""
    resolve: Mapping[str, str] = Field(default_factory=dict)
    """HOST: ADDRESS, wins over the hosts file and DNS."""
    hosts_file: Path | None = None
    """In the format of /etc/hosts, read again at each look; wins over DNS."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_password: SecretStr | None = None
    ssl_crlfile: Path | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None = None
    sasl_plain_username: str | None = None
    sasl_plain_password: SecretStr | None = None
    sasl_plain_password_file: Path | None = None
    """A file that holds the password alone; not together with sasl_plain_password."""
    sasl_oauth_token_file: Path | None = None
    """A file that holds an OAUTHBEARER token, read again at each login."""
    sasl_kerberos_service_name: str = "kafka"
    sasl_kerberos_domain_name: str | None = None

    @field_validator("bootstrap")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            host_port(address)
        return value

    @model_validator(mode="after")
    def _one_password(self) -> "ClusterSection":
        if self.sasl_plain_password is not None and self.sasl_plain_password_file is not None:
            raise ValueError("give sasl_plain_password or sasl_plain_password_file, not both")
        return self

    @model_validator(mode="after")
    def _login(self) -> "ClusterSection":
        """A login that cannot be would be told as the cluster's refusal, hours later."""
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
        password = self.sasl_plain_password or self.sasl_plain_password_file
        by_password = self.sasl_mechanism in _BY_PASSWORD
        if by_password and not (self.sasl_plain_username and password):
            raise ValueError(
                f"sasl_mechanism {self.sasl_mechanism} needs sasl_plain_username and sasl_plain_password "
                "(or sasl_plain_password_file)"
            )
        return self

    @property
    def access(self) -> Access:
        """What the rules may know of how we come in."""
        # Kafka's default names a principal after the login's user; after a certificate or a token only Kafka knows.
        user = self.sasl_plain_username if self.sasl_mechanism in _BY_PASSWORD else None
        return Access(secured=self.security_protocol != "PLAINTEXT", principal=None if user is None else f"User:{user}")

    def cluster(self) -> Cluster:
        """The plain value that the gatherer gets.

        Raises:
            UsageError: a named file cannot be read.
        """
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile", "sasl_oauth_token_file", "hosts_file"):
            path = getattr(self, name)
            if path is not None:
                _readable(path, f"cluster {self.name}: {name}")
        options: dict[str, str | int | bool | None] = {
            "security_protocol": self.security_protocol,
            "ssl_check_hostname": self.ssl_check_hostname,
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_plain_username,
            "sasl_plain_password": self._password(),
            "sasl_kerberos_service_name": self.sasl_kerberos_service_name,
            "sasl_kerberos_domain_name": self.sasl_kerberos_domain_name,
            "ssl_password": None if self.ssl_password is None else self.ssl_password.get_secret_value(),
        }
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile", "sasl_oauth_token_file"):
            path = getattr(self, name)
            options[name] = None if path is None else str(path)
        return Cluster(
            name=self.name,
            bootstrap=tuple(host_port(address) for address in self.bootstrap),
            cluster_id=self.cluster_id,
            options={key: value for key, value in options.items() if value is not None},
            resolve=dict(self.resolve),
            hosts_file=None if self.hosts_file is None else str(self.hosts_file),
        )

    def _password(self) -> str | None:
        if self.sasl_plain_password_file is not None:
            place = f"cluster {self.name}: sasl_plain_password_file"
            return _readable(self.sasl_plain_password_file, place).rstrip("\n")
        return None if self.sasl_plain_password is None else self.sasl_plain_password.get_secret_value()


class Config(Section):
    """Everything `kraftwatch run` needs to know."""

    clusters: tuple[ClusterSection, ...] = Field(min_length=1)
    checkpoint: Path = Path("kraftwatch-checkpoint")
    """Holds the journal, Spark's checkpoint and the ledger: keep it, it is the memory."""
    sinks: tuple[str, ...] = ("console",)
    """`console`, `jsonl:PATH`."""
    thresholds: Mapping[str, Mapping[str, float]] = Field(default_factory=dict)
    """RULE: {THRESHOLD: VALUE}."""
    master: str = "local[2]"
    """Spark's master. With local[1] a batch takes half again as long."""
    spark: Mapping[str, str] = Field(default_factory=dict)
    """Further Spark settings, as they are."""
    listen: str | None = None
    """HOST:PORT of /healthz and /readyz; none by default."""

    @field_validator("clusters")
    @classmethod
    def _names_differ(cls, value: tuple[ClusterSection, ...]) -> tuple[ClusterSection, ...]:
        names = [section.name for section in value]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two clusters are called {name}: give each a name of its own")
        return value

    @field_validator("listen")
    @classmethod
    def _listen_address(cls, value: str | None) -> str | None:
        if value is not None:
            host_port(value)
        return value

    def overrides(self) -> dict[str, float]:
        """The thresholds as RULE.NAME -> value."""
        return flattened(self.thresholds)

    def thresholds_in_force(self) -> Mapping[str, Thresholds]:
        """Every rule's numbers, the configuration's laid over the defaults.

        Raises:
            UsageError: no rule knows one of them, or it cannot be.
        """
        return in_force(self.thresholds)


def flattened(thresholds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """RULE: {NAME: VALUE} as RULE.NAME -> value."""
    return {f"{rule}.{name}": value for rule, values in thresholds.items() for name, value in values.items()}


def in_force(thresholds: Mapping[str, Mapping[str, float]]) -> Mapping[str, Thresholds]:
    """Every rule's numbers, these (RULE: {NAME: VALUE}) laid over the defaults.

    Raises:
        UsageError: no rule knows one of them, or it cannot be.
    """
    try:
        return thresholds_for(flattened(thresholds))
    except ValueError as problem:
        raise UsageError(str(problem)) from None


def host_port(address: str) -> tuple[str, int]:
    """HOST:PORT (or [V6]:PORT) as a pair.

    Raises:
        ValueError: it is not of that form.
    """
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"'{address}' is not HOST:PORT")
    return host, int(port)


def load(path: Path) -> Config:
    """The configuration in a YAML file.

    Raises:
        UsageError: it cannot be read, is not YAML, or says something that cannot be.
    """
    text = _readable(path, "--config")
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise UsageError(
            f"{path}: not YAML{place}: {getattr(problem, 'problem', None) or 'cannot be parsed'}"
        ) from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: a configuration is a mapping that has at least the key 'clusters'")
    return checked(data, str(path))


def checked(data: Mapping[str, Any], place: str) -> Config:
    """A configuration from plain data; `place` is named in the error.

    Raises:
        UsageError: one sentence for the first thing that cannot be.
    """
    try:
        return Config.model_validate(data)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        raise UsageError(f"{place}: {_sentence(first['type'], first['loc'], first['msg'])}") from None


def _sentence(kind: str, where: Sequence[int | str], message: str) -> str:
    path = ".".join(str(part) for part in where)
    if kind == "extra_forbidden":
        section = ClusterSection if len(where) > 1 and where[0] == "clusters" else Config
        near = difflib.get_close_matches(str(where[-1]), section.model_fields, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"known keys: {', '.join(section.model_fields)}"
        return f"unknown key '{path}'; {hint}"
    return f"{path}: {message.removeprefix('Value error, ')}"


def _readable(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{what}: cannot read {path}: {(problem.strerror or 'unreadable').lower()}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{what}: cannot read {path}: it is not UTF-8 text") from None
