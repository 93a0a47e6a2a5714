"""The lab's certificate authority: issues and revokes certificates."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deploy.lab.addresses import DOMAIN, LOOPBACK

_VALID_DAYS = (-7, 20)
"""Longer than the time in which an expiry is reported."""
_DAY = datetime.timedelta(days=1)
_PEM = serialization.Encoding.PEM


class LabCertificateAuthority:
    """Its certificate is `file`. Issued PEM files (key, certificate, CA certificate) are written to the same folder."""

    def __init__(self, folder: Path, issuer: "LabCertificateAuthority | None" = None) -> None:
        """Creates a key and a certificate: self-signed, or an intermediate one, issued by `issuer`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kraftwatch lab CA" if issuer is None else "kraftwatch lab intermediate CA")
        signer = self if issuer is None else issuer
        self._certificate = (
            signer._builder(self._name, self._key, days=_VALID_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=1 if issuer is None else 0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(signer._key, hashes.SHA256())
        )
        self.file = folder / "ca.pem"
        """The trust store of clients."""
        self.file.write_bytes(self._certificate.public_bytes(_PEM))

    def issue(
        self,
        name: str,
        *,
        common_name: str | None = None,
        hosts: Sequence[str] = ("localhost", f"*.{DOMAIN}", LOOPBACK),
        days: tuple[int, int] = _VALID_DAYS,
        password: str | None = None,
        rsa_key: bool = False,
    ) -> Path:
        """Returns NAME.pem: a certificate for CN=NAME and these hosts, by default every one of the lab.

        Kafka's principal for its owner is `User:CN=NAME`.

        Args:
            name: the file's name and, without `common_name`, the common name.
            common_name: another common name.
            hosts: names and addresses.
            days: start and end of the validity, in days from now.
            password: encrypts the private key.
            rsa_key: with a key that signs by RSA, not by ECDSA.
        """
        key = rsa.generate_private_key(65_537, 2_048) if rsa_key else ec.generate_private_key(ec.SECP256R1())
        addresses = (x509.IPAddress(ipaddress.ip_address(LOOPBACK)) for host in hosts if host == LOOPBACK)
        names = [*(x509.DNSName(host) for host in hosts if host != LOOPBACK), *addresses]
        # Nodes are also clients of each other.
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = (
            self._builder(_name(common_name or name), key, days=days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        encryption = (
            serialization.NoEncryption()
            if password is None
            else serialization.BestAvailableEncryption(password.encode())
        )
        private_key = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
        file = self._folder / f"{name}.pem"
        file.write_bytes(private_key + certificate.public_bytes(_PEM) + self._certificate.public_bytes(_PEM))
        return file

    def revoke(self, issued: Path) -> Path:
        """Returns crl.pem: a revocation list with one issued certificate."""
        now = datetime.datetime.now(datetime.UTC)
        certificate = x509.load_pem_x509_certificates(issued.read_bytes())[0]
        entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number).revocation_date(now).build()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        revocation_list = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - _DAY)
            .next_update(now + 7 * _DAY)
            .add_extension(issuer, critical=False)
            .add_extension(x509.CRLNumber(1), critical=False)
            .add_revoked_certificate(entry)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / "crl.pem"
        file.write_bytes(revocation_list.public_bytes(_PEM))
        return file

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey, *, days: tuple[int, int]
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
