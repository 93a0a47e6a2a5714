"""Creates certificates for tests."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class CertificateAuthority:
    """A certificate authority and its folder."""

    folder: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def file(self) -> str:
        return str(self.folder / "ca.pem")

    def issue(self, name: str, *, host: str = "localhost", from_day: int = -1, to_day: int = 1) -> str:
        """Creates a file with a key and a certificate for `host` and 127.0.0.1, valid between these days from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(host)]
        if host == "localhost":
            names.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))  # type: ignore[arg-type]
        certificate = (
            _builder(name, self.certificate.subject, key, from_day=from_day, to_day=to_day)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file = self.folder / f"{name}.pem"
        file.write_bytes(_pem_key(key) + certificate.public_bytes(serialization.Encoding.PEM))
        return str(file)

    def server(self, file: str, *, client_certificates: bool = False) -> ssl.SSLContext:
        """Returns a TLS context for the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        if client_certificates:
            context.load_verify_locations(self.file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def authority(folder: Path) -> CertificateAuthority:
    """Creates a certificate authority."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
    certificate = (
        _builder("test CA", name, key, from_day=-1, to_day=1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return CertificateAuthority(folder, certificate, key)


def _builder(
    name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, *, from_day: int, to_day: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + from_day * _DAY)
        .not_valid_after(now + to_day * _DAY)
    )


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
