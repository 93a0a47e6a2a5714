"""An HTTP double, its certificate, and the authority that issued it."""

import ssl
from collections.abc import Iterator

import pytest

from tests.sinks.server import HttpDouble, serving
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def certificate(trusted: CertificateAuthority) -> ssl.SSLContext:
    return trusted.server(trusted.issue("server"))


@pytest.fixture
def server(certificate: ssl.SSLContext) -> Iterator[HttpDouble]:
    with serving(certificate) as server:
        yield server
