"""The certificate of the HTTP doubles and the authority that issued it."""

import ssl

import pytest

from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def certificate(trusted: CertificateAuthority) -> ssl.SSLContext:
    return trusted.server(trusted.issue("server"))
