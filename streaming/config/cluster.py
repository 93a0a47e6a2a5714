"""One cluster to watch, and how to log in there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from connectors.cluster import Cluster
from rules.quorum import Access, Vantage
from streaming.config.section import Section, readable

_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class ClusterSection(Section):
    """One cluster to watch."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)
    """How alerts call it; part of the recorded state's identity, so renaming starts anew."""
    bootstrap: tuple[str, ...] = Field(min_length=1)
    """HOST:PORT of controllers, all of them if possible. With brokers only, the log cannot be read."""
    cluster_id: str | None = None
    """Needed only where DescribeCluster is denied to the monitor."""
    metadata_log: bool = True
    """`false`: polls alone, for which DESCRIBE does; the rules that need the log are then not applicable."""
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
        return Access(
            secured=self.security_protocol != "PLAINTEXT",
            principal=None if user is None else f"User:{user}",
            log=self.metadata_log,
        )

    def cluster(self) -> Cluster:
        """The plain value that the gatherer gets.

        Raises:
            UsageError: a named file cannot be read.
        """
        for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile", "sasl_oauth_token_file", "hosts_file"):
            path = getattr(self, name)
            if path is not None:
                readable(path, f"cluster {self.name}: {name}")
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
            log=self.metadata_log,
        )

    def _password(self) -> str | None:
        if self.sasl_plain_password_file is not None:
            place = f"cluster {self.name}: sasl_plain_password_file"
            return readable(self.sasl_plain_password_file, place).rstrip("\n")
        return None if self.sasl_plain_password is None else self.sasl_plain_password.get_secret_value()


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
