"""A secured quorum: TLS by a CA of the lab's own, a login by PLAIN on every listener, and Kafka's StandardAuthorizer.

PLAIN, because its users stand in each node's configuration. SCRAM's stand in the metadata log, which controllers that
have to log in to each other by it could never begin to write.
"""

import secrets
import socket
import ssl
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from deploy.lab import kafka_requests
from deploy.lab.certificate_authority import Authority
from deploy.lab.node import BROKER, CONTROLLER, LOOPBACK, Listener
from deploy.lab.oauth_issuer import TokenIssuer

with warnings.catch_warnings():
    # As in `wire`: kafka-python reads its schemas by a function that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.protocol.sasl import (
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )

ADMIN = "admin"
"""The super user; the nodes log in to each other as it, too."""
_HANDSHAKE_V1, _AUTHENTICATE_V1 = 1, 1
_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_SASL = "org.apache.kafka.common.security"
_ANONYMOUS = "User:ANONYMOUS"

MUTUAL_TLS = Listener(name="MTLS", protocol="SSL", properties={"ssl.client.auth": "required"})
"""Wants a client's certificate of the quorum's authority: the principal is `User:CN=...`."""
SCRAM = Listener(
    name="SCRAM",
    protocol="SASL_SSL",
    properties={
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "scram-sha-256.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{_SASL}.scram.ScramLoginModule required;",
    },
)
"""Whose users are made while the quorum runs: Kafka's records hold them."""
BEARER = Listener(
    name="BEARER",
    protocol="SASL_SSL",
    properties={
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "oauthbearer.sasl.jaas.config": f"{_SASL}.oauthbearer.OAuthBearerLoginModule required;",
        "oauthbearer.sasl.server.callback.handler.class": f"{_SASL}.oauthbearer.OAuthBearerValidatorCallbackHandler",
    },
)
"""Takes the tokens that `Security.tokens` issues, and checks their signature."""
IN_THE_CLEAR = Listener(name="CLEAR", protocol="SASL_PLAINTEXT")
"""PLAIN without TLS."""


class Security:
    """The users and certificates of one quorum. All but the admin may do nothing until an ACL allows it."""

    def __init__(self, folder: Path, users: Sequence[str], *, plaintext: Collection[str] = ()) -> None:
        """Makes CA, server certificate (one for all nodes and names of the lab) and passwords, and writes them.

        `plaintext`: CONTROLLER or BROKER, where that listener is open to all: who comes in there is a super user.
        """
        self.passwords: Mapping[str, str] = {name: secrets.token_urlsafe(18) for name in (ADMIN, *users)}
        self.plaintext = frozenset(plaintext)
        self.authority = Authority(folder)
        self.tokens = TokenIssuer(folder)
        self.ca_file = self.authority.file
        """What a client has to trust."""
        self.server_file = self.authority.issue("server")
        self.admin_file = folder / "admin.properties"
        """What Kafka's tools take as --command-config."""
        self.admin_file.write_text(
            "".join(f"{key}={value}\n" for key, value in self._client().items()), encoding="utf-8"
        )
        self._context = ssl.create_default_context(cafile=str(self.ca_file))

    def node_properties(self) -> dict[str, str]:
        """What makes a node secured, and at the end what Kafka's tools need to reach it with this very file."""
        users = " ".join(f'user_{name}="{password}"' for name, password in self.passwords.items())
        login = f"{self._jaas(ADMIN)} {users};"
        keys = self.tokens.jwks_file.as_uri()
        protocols = {name: "PLAINTEXT" if name in self.plaintext else "SASL_SSL" for name in (CONTROLLER, BROKER)}
        return {
            "listener.security.protocol.map": ",".join(f"{name}:{one}" for name, one in protocols.items()),
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{CONTROLLER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{BROKER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{IN_THE_CLEAR.name.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{BEARER.name.lower()}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.server_file),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": ";".join([f"User:{ADMIN}", *([_ANONYMOUS] if self.plaintext else [])]),
            **self._client(),
        }

    @property
    def java_options(self) -> tuple[str, ...]:
        """What lets a node read the public keys of `tokens`."""
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.tokens.jwks_file.as_uri()}",)

    def client(self, user: str = ADMIN) -> dict[str, str | int]:
        """How librdkafka logs in."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.ca_file),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.passwords[user],
        }

    def dial(self, port: int) -> socket.socket:
        """A connection to 127.0.0.1:`port` on which the admin has logged in.

        Raises:
            OSError: nobody accepts it, its certificate is none of ours, or the login is refused.
        """
        connection = self._context.wrap_socket(kafka_requests.plaintext(port), server_hostname=LOOPBACK)
        try:
            shaken = kafka_requests.exchange(
                connection, SaslHandshakeRequest[_HANDSHAKE_V1](mechanism="PLAIN"), SaslHandshakeResponse, _HANDSHAKE_V1
            )
            login = f"\0{ADMIN}\0{self.passwords[ADMIN]}".encode()
            answer = shaken.error_code or kafka_requests.exchange(
                connection, SaslAuthenticateRequest[_AUTHENTICATE_V1](auth_bytes=login), SaslAuthenticateResponse,
                _AUTHENTICATE_V1,
            ).error_code  # fmt: skip
        except BaseException:
            connection.close()
            raise
        if answer:
            connection.close()
            raise ConnectionError(f"the node on port {port} refused the admin's login: error {answer}")
        return connection

    def _client(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{self._jaas(ADMIN)};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca_file),
        }

    def _jaas(self, user: str) -> str:
        return f'{_LOGIN_MODULE} required username="{user}" password="{self.passwords[user]}"'
