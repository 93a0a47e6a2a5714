"""Sinks and the heartbeat reach their servers through the proxy of the environment, with TLS to the server itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.settings.secret import Secret
from connectors.sinks.sink import Delivered, Retry
from rules.notifications.notification import single_alert_notification
from streaming.metrics.heartbeat import request_url
from tests.sinks.connect_proxy import ConnectProxy, proxying
from tests.sinks.server import HttpDouble
from tests.sinks.sink_kind import SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

NOTIFICATION = single_alert_notification(alert())


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch, trusted: CertificateAuthority) -> Iterator[ConnectProxy]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    with proxying() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        yield proxy


@pytest.mark.parametrize("kind", SINK_KINDS, ids=str)
def test_sink_sends_through_the_proxy(
    kind: SinkKind, server: HttpDouble, proxy: ConnectProxy, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    server.behave = kind.reply
    sink = kind.open(server.url, Path(trusted.file), tmp_path)

    assert sink.send([NOTIFICATION], sent_at_ms=NOON_MS, deadline_s=60) == [Delivered()]

    assert set(proxy.targets) == {f"127.0.0.1:{server.port}"}
    assert proxy.refused == []
    assert server.requests


@pytest.mark.parametrize("kind", SINK_KINDS, ids=str)
def test_login_of_the_proxy_is_in_no_reason(
    kind: SinkKind,
    server: HttpDouble,
    proxy: ConnectProxy,
    trusted: CertificateAuthority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("proxy-password", "wrong-password"))
    sink = kind.open(server.url, Path(trusted.file), tmp_path)

    (outcome,) = sink.send([NOTIFICATION], sent_at_ms=NOON_MS, deadline_s=60)

    assert isinstance(outcome, Retry)
    assert "wrong-password" not in outcome.reason
    assert proxy.targets == []
    assert server.requests == []


def test_heartbeat_uses_the_proxy(server: HttpDouble, proxy: ConnectProxy) -> None:
    assert request_url(Secret(text=f"{server.url}/ping")) is None
    assert proxy.targets == [f"127.0.0.1:{server.port}"]
