"""A call of a sink, and a heartbeat, end at their deadline, however slowly the server answers byte by byte."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import requests

from connectors.settings.secret import Secret
from connectors.sinks.apprise import AppriseSection
from connectors.sinks.bounded_http import BoundedAdapter, bounded
from connectors.sinks.http_request import post
from connectors.sinks.sink import Outcome, Retry, Sink
from connectors.sinks.sink_config import MessageLinks
from rules.notifications.notification import single_alert_notification
from streaming.metrics import heartbeat
from streaming.metrics.heartbeat import request_url
from tests.sinks.server import DRIPPING_BODIES, DRIPS, Drip, HttpDouble, HttpReply, dripping
from tests.sinks.sink_kind import SECRET
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

DEADLINE_S = 1.0
GRACE_S = 20.0
"""Tolerance for slow machines: a server drips for a minute."""
LATE = "no response in time"
HANDSHAKE = Drip(begin=b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", each=b"\x00")
"""A ServerHello that never ends."""
GREETING = Drip(begin=b"220-mail", each=b".")
TUNNEL = Drip(begin=b"HTTP/1.1 200 Connected\r\n", each=b"X: y\r\n")


@pytest.fixture(autouse=True)
def _trust(trusted: CertificateAuthority, monkeypatch: pytest.MonkeyPatch) -> None:
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def sent(sink: Sink) -> Sequence[Outcome]:
    began = time.monotonic()
    outcomes = sink.send([single_alert_notification(alert())], sent_at_ms=NOON_MS, deadline_s=DEADLINE_S)
    assert time.monotonic() - began < DEADLINE_S + GRACE_S
    return outcomes


@pytest.mark.parametrize("drip", [*DRIPS.values(), *DRIPPING_BODIES.values()], ids=[*DRIPS, *DRIPPING_BODIES])
def test_nothing_that_drips_holds_a_request_beyond_its_deadline(
    server: HttpDouble, trusted: CertificateAuthority, drip: Drip
) -> None:
    server.behave = lambda _: drip
    began = time.monotonic()

    assert post(server.url, b"{}", seconds=DEADLINE_S / 2, ca_file=Path(trusted.file)) == Retry(reason=LATE)

    assert time.monotonic() - began < DEADLINE_S + GRACE_S


@pytest.mark.parametrize("scheme", ["insecure", "starttls", "ssl"])
def test_a_mail_server_whose_answer_drips_ends_at_the_deadline(tmp_path: Path, scheme: str) -> None:
    with dripping(HANDSHAKE if scheme == "ssl" else GREETING) as port:
        url = f"mailto://127.0.0.1:{port}/?mode={scheme}&from=kraftwatch@example.com&to=eva@example.com"
        sink = AppriseSection(url=Secret(text=url)).open(MessageLinks(), tmp_path)

        assert sent(sink) == [Retry(reason=LATE)]


@pytest.fixture
def short_heartbeat(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(heartbeat, "TIMEOUT_S", DEADLINE_S)
    began = time.monotonic()
    yield
    assert time.monotonic() - began < DEADLINE_S + GRACE_S


@pytest.mark.usefixtures("short_heartbeat")
@pytest.mark.parametrize("drip", ["header", "100 Continue"])
def test_a_heartbeat_whose_answer_drips_ends_at_its_deadline(server: HttpDouble, drip: str) -> None:
    server.behave = lambda _: DRIPS[drip]
    assert request_url(Secret(text=server.url)) == LATE


@pytest.mark.usefixtures("short_heartbeat")
@pytest.mark.parametrize("drip", [DRIPPING_BODIES["body"], DRIPS["body of an error"]], ids=["accepted", "refused"])
def test_a_heartbeat_does_not_read_the_body(server: HttpDouble, drip: Drip) -> None:
    server.behave = lambda _: drip
    assert request_url(Secret(text=server.url)) in (None, "the service answered 500")


@pytest.mark.usefixtures("short_heartbeat")
def test_a_heartbeat_that_is_redirected_without_end_ends(server: HttpDouble) -> None:
    server.behave = lambda _: HttpReply(status=302, headers={"Location": f"{server.url}/{SECRET}"})
    reason = request_url(Secret(text=server.url))
    assert reason is not None
    assert SECRET not in reason


def test_all_requests_of_one_call_share_its_deadline(server: HttpDouble) -> None:
    server.behave = lambda _: DRIPS["header"]
    with requests.Session() as session, bounded(DEADLINE_S) as bound:
        session.mount("https://", BoundedAdapter())
        for _ in range(50):
            with pytest.raises(requests.Timeout):
                session.get(server.url)
        assert bound.over
    assert len(server.requests) <= 1


def test_an_answer_is_read_up_to_a_limit(server: HttpDouble) -> None:
    server.behave = lambda _: HttpReply(body=b"x" * 100_000)
    with requests.Session() as session, bounded(DEADLINE_S * 60, accepted_bytes=1_000):
        session.mount("https://", BoundedAdapter())
        assert session.get(server.url).content == b"x" * 1_000
