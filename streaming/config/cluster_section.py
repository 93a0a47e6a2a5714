"""The configuration of one cluster: addresses, login, name resolution, thresholds; and how a rule is changed."""

import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from connectors.errors import UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.settings.secret import Secret
from connectors.settings.sections import (
    BY_PASSWORD,
    NAME_CHARACTERS,
    Bootstrap,
    Form,
    LoginSection,
    Section,
    ThresholdValue,
    host_port,
    parse_seconds,
    placed_error,
    readable,
)
from rules.finding import Severity, Thresholds
from rules.model.monitoring import Access, Vantage


class RuleSection(Section):
    """How one rule is changed."""

    severity: Severity | None = None
    """The severity of every finding of the rule: `critical`, `warning` or `info`; default: as the rule gives it."""
    enabled: bool | None = None
    """`false`: the rule is not evaluated, its alerts that are firing resolve, and no other rule reports in its place;
    default: `true`."""


def overrides_in_force(common: Mapping[str, RuleSection], own: Mapping[str, RuleSection]) -> Mapping[str, Thresholds]:
    """Returns the overrides of one cluster by rule id; each key of the cluster's own ones wins."""
    given: dict[str, dict[str, Any]] = {}
    for rule, section in (*common.items(), *own.items()):
        given.setdefault(rule, {}).update(section.model_dump(exclude_none=True))
    return {rule: Thresholds(**keys) for rule, keys in given.items()}


def threshold_value(rule: str, name: str, value: object) -> float:
    """Returns the number that a configured threshold stands for: of a duration, the seconds.

    Raises:
        ValueError: there is no such rule or threshold, or the value is invalid.
    """
    # Imported here: most commands get no threshold, and the rules take as long to load as the configuration.
    from rules.evaluate import ALL_RULES, thresholds_for

    units = {threshold.name: threshold.unit for threshold in ALL_RULES[rule].thresholds} if rule in ALL_RULES else {}
    number = value if isinstance(value, int | float) else parse_seconds(str(value), unit=units.get(name, "s"))
    thresholds_for({f"{rule}.{name}": number})
    return number


def _numbers(given: Mapping[str, Mapping[str, object]]) -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for rule, values in given.items():
        for name, value in values.items():
            try:
                found.setdefault(rule, {})[name] = threshold_value(rule, name, value)
            except ValueError as problem:
                raise placed_error(str(problem), rule, name) from None
    return found


RuleThresholds: TypeAlias = Annotated[Mapping[str, Mapping[str, ThresholdValue]], AfterValidator(_numbers)]
"""RULE: {THRESHOLD: VALUE}; a value is a duration where the threshold's unit is seconds, else a number."""


def flattened(thresholds: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Returns RULE: {NAME: VALUE} as RULE.NAME -> value."""
    return {f"{rule}.{name}": value for rule, values in thresholds.items() for name, value in values.items()}


def _checked(cluster_id: str) -> str:
    if not cluster_id or re.search(r"[^!-~]|[\"'=]", cluster_id):
        raise ValueError("must be one word, without quotes and =: copy cluster.id from a node's meta.properties")
    return cluster_id


ClusterId = Annotated[str, AfterValidator(_checked)]
"""The id of a Kafka cluster."""


_FILES = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_NAME = Form(r"^[A-Za-z0-9][A-Za-z0-9._-]*$", f"write {NAME_CHARACTERS}, beginning with a letter or a digit")
_OPTIONS = (*LoginSection.model_fields, "sasl_kerberos_service_name", "sasl_kerberos_domain_name")
"""The keys of the connection and the login, which the client takes under the same names."""


class ClusterDefaults(LoginSection):
    """The keys of a cluster that `defaults` may set: all but its name, addresses, id, thresholds and rules."""

    metadata_log: bool = True
    """`false`: DescribeQuorum polls only, for which DESCRIBE is enough; rules that need the log are not applicable."""
    vantage: Vantage = Vantage.INSIDE
    """`outside` if the monitor does not use the controllers' name service or network."""
    min_isr: int | None = Field(default=None, ge=1)
    """`min.insync.replicas` in the brokers' files, for `safe-to-restart` where the metadata log has none. Where it has
    a smaller default, which counts instead, `check` says so."""
    resolve: Mapping[str, str] = Field(default_factory=dict)
    """HOST: ADDRESS; overrides the hosts file and DNS."""
    hosts_file: Path | None = None
    """A file in the format of /etc/hosts, read at each probe; overrides DNS."""
    sasl_kerberos_service_name: str = "kafka"
    """For GSSAPI."""
    sasl_kerberos_domain_name: str | None = None
    """For GSSAPI: used instead of the host name."""


class ClusterSection(ClusterDefaults):
    """One cluster to monitor. `defaults` supplies the keys that it does not set."""

    name: Annotated[str, Field(max_length=100), _NAME]
    """The name in alerts. It identifies the recorded state: a renamed cluster starts without state."""
    bootstrap: Bootstrap
    """HOST:PORT of controllers, all of them if possible. Through brokers alone the log cannot be read."""
    cluster_id: ClusterId | None = None
    """Needed where the monitor may not use DescribeCluster, and to start on a new disk while the cluster is down."""
    thresholds: RuleThresholds = Field(default_factory=dict)
    """RULE: {THRESHOLD: VALUE} for this cluster; overrides the common ones."""
    rules: Mapping[str, RuleSection] = Field(default_factory=dict)
    """RULE: {severity: …, enabled: …} for this cluster; each value overrides the common one."""

    @model_validator(mode="after")
    def _login(self) -> "ClusterSection":
        self.check_login()
        return self

    @property
    def access(self) -> Access:
        """Returns what the rules may know of the monitor's access."""
        # By default Kafka's principal is the SASL user name; of a certificate or a token only Kafka knows it.
        user = self.sasl_plain_username if self.sasl_mechanism in BY_PASSWORD else None
        return Access(
            protocol=self.security_protocol,
            principal=None if user is None else f"User:{user}",
            log=self.metadata_log,
            scram=(self.sasl_mechanism or "").startswith("SCRAM-"),
        )

    def cluster(self) -> ClusterConnection:
        """Returns the connection settings for the gatherer.

        Raises:
            UsageError: a file cannot be read, or the mechanism needs a package that is not installed.
        """
        if self.sasl_mechanism == "GSSAPI":
            self._check_gssapi()
        for name in (*_FILES, "hosts_file"):
            path = getattr(self, name)
            if path is not None:
                readable(path, f"cluster {self.name}: {name}")
        for name, secret in self.login_secrets.items():
            # The gatherer reads it at each login: an error is reported now and with its key.
            secret.check(f"cluster {self.name}: {name}")
        options = dict(_option(name, value) for name in _OPTIONS if (value := getattr(self, name)) is not None)
        return ClusterConnection(
            name=self.name,
            bootstrap=tuple(host_port(address) for address in self.bootstrap),
            cluster_id=self.cluster_id,
            options=options,
            resolve=dict(self.resolve),
            hosts_file=None if self.hosts_file is None else str(self.hosts_file),
            log=self.metadata_log,
        )

    def _check_gssapi(self) -> None:
        try:
            import_module("gssapi")
        except (ImportError, OSError) as problem:  # OSError: without the library of Kerberos
            raise UsageError(
                f"cluster {self.name}: sasl_mechanism GSSAPI needs the Python package gssapi, which cannot be imported "
                f"({problem}): install it beside kraftwatch"
            ) from None


def _option(name: str, value: Secret | Path | str | bool) -> tuple[str, str | bool]:  # noqa: FBT001 - the value of a key
    """Returns what the client takes: kraftwatch's own option for the file of a secret, kafka-python's for the rest."""
    if isinstance(value, Secret):
        return (name, value.read()) if value.file is None else (f"{name}_file", str(value.file))
    return name, str(value) if isinstance(value, Path) else value
