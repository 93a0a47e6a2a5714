"""A secured quorum: TLS with the lab's CA, login with PLAIN on every listener, and Kafka's StandardAuthorizer.

Nodes log in with PLAIN, because its users are in each node's configuration. SCRAM users are in the metadata log, which
controllers that need SCRAM to log in to each other could never write. `TokenIssuer` signs the tokens of OAUTHBEARER.
"""

import base64
import json
import secrets
import socket
import ssl
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from deploy.lab import kafka_requests
from deploy.lab.addresses import LOOPBACK
from deploy.lab.node import BROKER, CONTROLLER, Listener
from tests.lab_certificate_authority import LabCertificateAuthority

with warnings.catch_warnings():
    # As in `kafka_requests`: kafka-python reads its schemas with a deprecated function.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )

ADMIN = "admin"
"""The super user. The nodes also log in to each other as this user."""
_HANDSHAKE_V1, _AUTHENTICATE_V1 = 1, 1
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SASL = "org.apache.kafka.common.security"

MUTUAL_TLS = Listener(name="MTLS", protocol="SSL", properties={"ssl.client.auth": "required"})
"""Requires a client certificate of the lab's CA: the principal is `User:CN=...`."""
SCRAM = Listener(
    name="SCRAM",
    protocol="SASL_SSL",
    properties={
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "scram-sha-256.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
    },
)
"""Its users are created while the quorum runs: Kafka stores them in metadata records."""
OAUTHBEARER = Listener(
    name="OAUTHBEARER",
    protocol="SASL_SSL",
    properties={
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{_SASL}.oauthbearer.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": f"{_SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    },
)
"""Accepts the tokens that `Security.tokens` issues, and verifies their signature."""
PLAIN_WITHOUT_TLS = Listener(name="PLAIN", protocol="SASL_PLAINTEXT")
"""PLAIN without TLS."""


class Security:
    """The users and certificates of one quorum. Users other than the admin have no permission without an ACL."""

    def __init__(self, folder: Path, users: Sequence[str]) -> None:
        """Creates and writes the CA, the server certificate (for all nodes and names of the lab) and the passwords."""
        self.passwords: Mapping[str, str] = {name: secrets.token_urlsafe(18) for name in (ADMIN, *users)}
        self.authority = LabCertificateAuthority(folder)
        self.tokens = TokenIssuer(folder)
        self.ca_file = self.authority.file
        """The trust store of clients."""
        self.server_file = self.authority.issue("server")
        self.admin_file = folder / "admin.properties"
        """The --command-config of Kafka's tools."""
        self.admin_file.write_text(
            "".join(f"{key}={value}\n" for key, value in self._client().items()), encoding="utf-8"
        )
        self._context = ssl.create_default_context(cafile=str(self.ca_file))
        self._context.load_cert_chain(self.server_file)

    def node_properties(self) -> dict[str, str]:
        """Returns the security properties of a node, including those of Kafka's tools when they use its file."""
        users = " ".join(f'user_{name}="{password}"' for name, password in self.passwords.items())
        login = f"{self._jaas(ADMIN)} {users};"
        keys = self.tokens.jwks_file.as_uri()
        bearer = f"listener.name.{OAUTHBEARER.name.lower()}.oauthbearer.sasl.oauthbearer"
        return {
            "listener.security.protocol.map": f"{CONTROLLER}:SASL_SSL,{BROKER}:SASL_SSL",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{CONTROLLER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{BROKER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{PLAIN_WITHOUT_TLS.name.lower()}.plain.sasl.jaas.config": login,
            f"{bearer}.jwks.endpoint.url": keys,
            # Kafka 4.4 does not start without these two.
            f"{bearer}.expected.issuer": _ISSUER,
            f"{bearer}.expected.audience": _AUDIENCE,
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            **self._client(),
        }

    @property
    def java_options(self) -> tuple[str, ...]:
        """The JVM option that allows a node to read the public keys of `tokens`."""
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.jwks_file.as_uri()}",)

    def trust(self, authority: Path) -> None:
        """Makes the lab itself trust another authority too."""
        self._context.load_verify_locations(authority)

    def client(self, user: str = ADMIN) -> dict[str, str | int]:
        """Returns librdkafka's login settings."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.passwords[user],
        }

    def connect(self, port: int) -> socket.socket:
        """Returns a connection to 127.0.0.1:`port` that is logged in as the admin.

        Raises:
            OSError: no process listens, the certificate is not from the lab's CA, or the login is refused.
        """
        connection = self._context.wrap_socket(kafka_requests.plaintext(port), server_hostname=LOOPBACK)
        try:
            handshake = kafka_requests.exchange(
                connection, SaslHandshakeRequest[_HANDSHAKE_V1](mechanism="PLAIN"), SaslHandshakeResponse, _HANDSHAKE_V1
            )
            login = f"\0{ADMIN}\0{self.passwords[ADMIN]}".encode()
            error_code = handshake.error_code or kafka_requests.exchange(
                connection, SaslAuthenticateRequest[_AUTHENTICATE_V1](auth_bytes=login), SaslAuthenticateResponse,
                _AUTHENTICATE_V1,
            ).error_code  # fmt: skip
        except BaseException:
            connection.close()
            raise
        if error_code:
            connection.close()
            raise ConnectionError(f"the node on port {port} refused the admin's login: error {error_code}")
        return connection

    def _client(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{self._jaas(ADMIN)};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server_file),
        }

    def _jaas(self, user: str) -> str:
        return f'{_LOGIN_MODULE} required username="{user}" password="{self.passwords[user]}"'


_KEY_ID = "lab"
_ISSUER, _AUDIENCE = "https://tokens.kraftwatch.invalid", "kafka"


class TokenIssuer:
    """Issues OAUTHBEARER tokens: signed JWTs, and the JWKS file with which Kafka verifies their signature.

    Kafka reads `jwks_file` by its URL if the JVM's options allow that URL.
    """

    def __init__(self, folder: Path) -> None:
        """Creates a key and writes its public half to `jwks_file`."""
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.jwks_file = folder / "jwks.json"
        public = self._key.public_key().public_numbers()
        n, e = (_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (public.n, public.e))
        jwk = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, "n": n, "e": e}
        self.jwks_file.write_text(json.dumps({"keys": [jwk]}), encoding="ascii")

    def token(self, subject: str, *, lifetime_s: int = 3600) -> str:
        """Returns a token for this principal, issued an hour ago; a negative `lifetime_s` makes an expired one."""
        now = int(time.time())
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims: dict[str, str | int] = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": subject,
            "scope": "kafka",
            "iat": now - 3600,
            "exp": now + lifetime_s,
        }
        signing_input = f"{_base64url_json(header)}.{_base64url_json(claims)}"
        signature = self._key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signing_input}.{_base64url(signature)}"


def _base64url_json(value: Mapping[str, str | int]) -> str:
    return _base64url(json.dumps(value).encode())


def _base64url(octets: bytes) -> str:
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")
