"""How to log in to a Kafka cluster: to one that is watched, or to one whose topic is told."""

from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from streaming.config.section import Section

BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms that want a user name and a password."""


class LoginSection(Section):
    """The keys that say it."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """What the listener speaks."""
    ssl_cafile: Path | None = None
    """PEM: whom to trust; without it, the system's authorities."""
    ssl_certfile: Path | None = None
    """PEM: our own certificate, where the listener wants one (mutual TLS)."""
    ssl_keyfile: Path | None = None
    """PEM: its key."""
    ssl_password: SecretStr | None = None
    """The key's password."""
    ssl_password_file: Path | None = None
    """A file that holds it alone, read again at each connection; not together with ssl_password."""
    ssl_crlfile: Path | None = None
    """PEM: what was revoked."""
    ssl_check_hostname: bool = True
    """`false` checks the chain and the dates, not the name."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] | None = None
    """How to log in; needed with SASL_PLAINTEXT and SASL_SSL."""
    sasl_plain_username: str | None = None
    """For PLAIN and SCRAM."""
    sasl_plain_password: SecretStr | None = None
    """For PLAIN and SCRAM."""
    sasl_plain_password_file: Path | None = None
    """A file that holds the password alone, read again at each login; not together with sasl_plain_password."""
    sasl_oauth_token_file: Path | None = None
    """A file that holds an OAUTHBEARER token, read again at each login."""

    def check_login(self) -> None:
        """A login that cannot be would be told as the cluster's refusal, hours later.

        Raises:
            ValueError: something is missing, or too much.
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
