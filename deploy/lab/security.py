"""A secured quorum: TLS by a CA of the lab's own, a login by PLAIN on every listener, and Kafka's StandardAuthorizer.

PLAIN, because its users stand in each node's configuration. SCRAM's stand in the metadata log, which controllers that
have to log in to each other by it could never begin to write.
"""

import datetime
import ipaddress
import secrets
import socket
import ssl
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deploy.lab import wire
from deploy.lab.names import DOMAIN
from deploy.lab.node import BROKER, CONTROLLER, LOOPBACK

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
_VALID = datetime.timedelta(days=7)


class Security:
    """The users and certificates of one quorum. All but the admin may do nothing until an ACL allows it."""

    def __init__(self, folder: Path, users: Sequence[str]) -> None:
        """Makes CA, server certificate (one for all nodes and names of the lab) and passwords, and writes them."""
        self.passwords: Mapping[str, str] = {name: secrets.token_urlsafe(18) for name in (ADMIN, *users)}
        folder.mkdir(parents=True, exist_ok=True)
        self.ca_file = folder / "ca.pem"
        """What a client has to trust."""
        self._server_file = folder / "server.pem"
        self._write_certificates()
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
        return {
            "listener.security.protocol.map": f"{CONTROLLER}:SASL_SSL,{BROKER}:SASL_SSL",
            "sasl.mechanism.controller.protocol": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN",
            f"listener.name.{CONTROLLER.lower()}.plain.sasl.jaas.config": login,
            f"listener.name.{BROKER.lower()}.plain.sasl.jaas.config": login,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server_file),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN}",
            **self._client(),
        }

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
        connection = self._context.wrap_socket(wire.plaintext(port), server_hostname=LOOPBACK)
        try:
            shaken = wire.exchange(
                connection, SaslHandshakeRequest[_HANDSHAKE_V1](mechanism="PLAIN"), SaslHandshakeResponse, _HANDSHAKE_V1
            )
            login = f"\0{ADMIN}\0{self.passwords[ADMIN]}".encode()
            answer = shaken.error_code or wire.exchange(
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

    def _write_certificates(self) -> None:
        ca_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        ca_name = _name("kraftwatch lab CA")
        ca = (
            _begun(ca_name, issuer=ca_name, key=ca_key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        names = [x509.DNSName("localhost"), x509.DNSName(f"*.{DOMAIN}"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
        # Nodes are each other's clients, too.
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        server = (
            _begun(_name("localhost"), issuer=ca_name, key=server_key)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        self.ca_file.write_bytes(ca.public_bytes(pem))
        self._server_file.write_bytes(key + server.public_bytes(pem) + ca.public_bytes(pem))


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _begun(subject: x509.Name, *, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
