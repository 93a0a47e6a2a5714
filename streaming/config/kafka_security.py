"""TLS and SASL settings of a Kafka client: for a monitored cluster, or for the cluster of an alert topic."""

from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from streaming.config.section import Section

BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that need a user name and a password."""


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
    ssl_password: SecretStr | None = None
    """The password of the private key."""
    ssl_password_file: Path | None = None
    """A file with only the password, read at each connection; not together with ssl_password."""
    ssl_crlfile: Path | None = None
    """PEM: the revoked certificates."""
    ssl_check_hostname: bool = True
    """`false` verifies the certificate chain and the dates, but not the host name."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None = None
    """The login mechanism; required with SASL_PLAINTEXT and SASL_SSL."""
    sasl_plain_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_plain_password: SecretStr | None = None
    """For PLAIN and SCRAM."""
    sasl_plain_password_file: Path | None = None
    """A file with only the password, read at each login; not together with sasl_plain_password."""
    sasl_oauth_token_file: Path | None = None
    """A file with an OAUTHBEARER token, read at each login."""

    def check_login(self) -> None:
        """Checks that the keys fit together: otherwise the cluster would refuse the login later.

        Raises:
            ValueError: a key is missing, or one is given that has no effect.
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
        password = self.sasl_plain_password or self.sasl_plain_password_file
        by_password = self.sasl_mechanism in BY_PASSWORD
        if by_password and not (self.sasl_plain_username and password):
            raise ValueError(
                f"sasl_mechanism {self.sasl_mechanism} needs sasl_plain_username and sasl_plain_password "
                "(or sasl_plain_password_file)"
            )
