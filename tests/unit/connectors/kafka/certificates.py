"""Certificates for servers and clients of tests on loopback."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from tests.lab_certificate_authority import LabCertificateAuthority


@dataclass(frozen=True)
class CertificateAuthority:
    """A certificate authority whose certificates are valid for a day."""

    lab: LabCertificateAuthority

    @property
    def file(self) -> str:
        return str(self.lab.file)

    def issue(self, name: str, *, host: str = "localhost", from_day: int = -1, to_day: int = 1) -> str:
        """Creates a file with a key and a certificate for `host` and 127.0.0.1, valid between these days from now."""
        hosts = ("localhost", "127.0.0.1") if host == "localhost" else (host,)
        return str(self.lab.issue(name, days=(from_day, to_day), hosts=hosts))

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
    return CertificateAuthority(LabCertificateAuthority(folder))
