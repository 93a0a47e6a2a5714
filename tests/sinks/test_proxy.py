"""Sinks and the heartbeat reach their servers through the proxy of the environment, with TLS to the server itself."""

from collections.abc import Iterator

import pytest

from connectors.settings.secret import Secret
from streaming.metrics.heartbeat import request_url
from tests.sinks.connect_proxy import ConnectProxy, proxying
from tests.sinks.server import HttpDouble
from tests.unit.connectors.kafka.certificates import CertificateAuthority


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch, trusted: CertificateAuthority) -> Iterator[ConnectProxy]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    with proxying() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        yield proxy


def test_heartbeat_uses_the_proxy(server: HttpDouble, proxy: ConnectProxy) -> None:
    assert request_url(Secret(text=f"{server.url}/ping")) is None
    assert proxy.targets == [f"127.0.0.1:{server.port}"]
