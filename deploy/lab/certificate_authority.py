"""A certificate authority of the lab's own: what it issues, and what it revokes."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deploy.lab.hosts_file import DOMAIN
from deploy.lab.node import LOOPBACK

_DAY = datetime.timedelta(days=1)
_PEM = serialization.Encoding.PEM


class Authority:
    """Its certificate is `file`; whatever it issues lies beside it: key, certificate and its own, in one PEM file."""

    def __init__(self, folder: Path) -> None:
        """Makes a key, and a certificate of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kraftwatch lab CA")
        self._certificate = (
            self._begun(self._name, self._key, days=(-7, 7))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "ca.pem"
        """What a client has to trust."""
        self.file.write_bytes(self._certificate.public_bytes(_PEM))

    def issue(
        self,
        name: str,
        *,
        common_name: str | None = None,
        days: tuple[int, int] = (-7, 7),
        password: str | None = None,
    ) -> Path:
        """NAME.pem: a certificate for CN=NAME and every name of the lab, valid between these days from now.

        Kafka takes its bearer for `User:CN=NAME`, unless it has another `common_name`. With a `password` its key is
        encrypted.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.DNSName(f"*.{DOMAIN}"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
        # Nodes are each other's clients, too.
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._begun(_name(common_name or name), key, days=days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        closed = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        held = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, closed)
        file = self._folder / f"{name}.pem"
        file.write_bytes(held + certificate.public_bytes(_PEM) + self._certificate.public_bytes(_PEM))
        return file

    def revoke(self, issued: Path) -> Path:
        """crl.pem: a list that revokes one certificate of ours."""
        now = datetime.datetime.now(datetime.UTC)
        certificate = x509.load_pem_x509_certificates(issued.read_bytes())[0]
        gone = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(now).build()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        revoked = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - _DAY)
            .next_update(now + 7 * _DAY)
            .add_extension(issuer, critical=False)
            .add_extension(x509.CRLNumber(1), critical=False)
            .add_revoked_certificate(gone)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / "crl.pem"
        file.write_bytes(revoked.public_bytes(_PEM))
        return file

    def _begun(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: tuple[int, int]
    ) -> x509.CertificateBuilder:
        now, (first, last) = datetime.datetime.now(datetime.UTC), days
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + first * _DAY)
            .not_valid_after(now + last * _DAY)
        )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


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
