"""The contract of every sink that uses HTTP, for every behaviour of its server."""

import logging
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.retries import RetrySchedule
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from rules.alert import Alert
from rules.notifications.notification import Notification, NotifyReason
from tests.sinks.server import (
    Behaviour,
    ConnectionReset,
    HttpDouble,
    HttpReply,
    NoReply,
    ReceivedRequest,
    ResetInReply,
    serving,
)
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

DEADLINE_S = 60.0
GRACE_S = 30.0
"""Tolerance for slow machines: a call that takes longer than the deadline and this was not bounded at all."""


@pytest.fixture(params=SINK_KINDS, ids=str)
def subject(request: pytest.FixtureRequest) -> SinkKind:
    found: SinkKind = request.param
    return found


@dataclass
class SinkContract:
    """A sink, its server, and what is expected of both."""

    subject: SinkKind
    sink: Sink
    server: HttpDouble

    def send(self, *notifications: Notification, deadline_s: float = DEADLINE_S) -> Sequence[Outcome]:
        sent = notifications or (notification(),)
        began = time.monotonic()
        outcomes = self.sink.send(sent, sent_at_ms=NOON_MS, deadline_s=deadline_s)
        assert time.monotonic() - began < deadline_s + GRACE_S
        assert len(outcomes) == len(sent)
        for outcome in outcomes:
            if not isinstance(outcome, Delivered):
                assert_reason_is_safe(outcome)
        return outcomes

    def server_replies(self, behaviour: Behaviour) -> None:
        self.server.behave = lambda _: behaviour

    def server_accepts(self) -> None:
        self.server.behave = self.subject.reply


@pytest.fixture
def contract(
    subject: SinkKind,
    server: HttpDouble,
    trusted: CertificateAuthority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> SinkContract:
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    found = SinkContract(subject, subject.open(server.url, Path(trusted.file), tmp_path), server)
    found.server_accepts()
    return found


@pytest.fixture(autouse=True)
def _no_log_shows_a_secret(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.INFO)
    yield
    assert SECRET not in caplog.text


def notification(
    subject: str = "voter 2", *, reason: NotifyReason = NotifyReason.FIRING, **changed: Any
) -> Notification:
    one: Alert = alert(subject, resolved=reason is NotifyReason.RESOLVED, **changed)
    new = () if reason is NotifyReason.REPEATED else (one,)
    return Notification(incident=one.fingerprint, reason=reason, alerts=(one,), new_transitions=new)


def assert_reason_is_safe(outcome: Retry | Rejected) -> None:
    assert SECRET not in outcome.reason
    assert outcome.reason.strip()
    assert "\n" not in outcome.reason
    assert "Traceback" not in outcome.reason
    assert len(outcome.reason) < 300


def test_name_and_repr_show_no_secret(contract: SinkContract) -> None:
    assert SECRET not in contract.sink.options.name
    assert SECRET not in repr(contract.sink)
    assert SECRET not in repr(contract.subject.section("https://x", Path("ca")))


def test_accepted_notifications_are_delivered_in_order(contract: SinkContract) -> None:
    names = [f"voter {number}" for number in range(5)]
    assert contract.send(*map(notification, names)) == [Delivered()] * 5
    bodies = [request.body.decode() for request in contract.server.requests]
    firsts = [next(at for at, body in enumerate(bodies) if name in body) for name in names]
    assert firsts == sorted(firsts)


def test_every_notification_of_an_incident_is_accepted(contract: SinkContract) -> None:
    for reason in (NotifyReason.FIRING, NotifyReason.CHANGED, NotifyReason.REPEATED, NotifyReason.RESOLVED):
        assert contract.send(notification(reason=reason)) == [Delivered()]


def test_hostile_text_from_a_cluster_is_delivered_as_data(contract: SinkContract) -> None:
    hostile = "<!channel> @here &amp; ``` \x1b[31m \u202e \ud800 *bold* <https://evil.example|click> \x00 "
    hostile += "x" * 9_000
    one = notification(
        hostile, summary=hostile, cluster=hostile, evidence={hostile: [hostile] * 50}, remedy=(hostile,) * 60
    )
    assert contract.send(one) == [Delivered()]


def test_a_storm_incident_is_one_accepted_message(contract: SinkContract) -> None:
    alerts = tuple(alert(f"voter {number}", evidence={"line": "x" * 500}) for number in range(300))
    storm = Notification(incident="57" * 8, reason=NotifyReason.FIRING, alerts=alerts, new_transitions=alerts)
    assert contract.send(storm) == [Delivered()]


@pytest.mark.parametrize("status", [302, 307, 400, 401, 403, 404, 405, 408, 410, 413, 422, 429, 500, 502, 503, 504])
def test_every_status_has_its_outcome(contract: SinkContract, status: int) -> None:
    elsewhere = {"Location": f"{contract.server.url}/elsewhere"}
    contract.server_replies(HttpReply(status=status, headers=elsewhere, body=f'{{"error": "{SECRET}"}}'.encode()))
    (outcome,) = contract.send()
    assert isinstance(outcome, Rejected if status in contract.subject.permanent else Retry)
    assert not [request for request in contract.server.requests if request.path == "/elsewhere"]
    if isinstance(outcome, Retry):
        assert len(contract.server.requests) == 1, "the dispatcher retries, not the sink"
    contract.server_accepts()
    assert contract.send() == [Delivered()]


PAGES = {
    "small": b"<html><p>Log in to the proxy for %s</p></html>",
    "with a type": b"\n<!DOCTYPE html>\n<html><p>Log in to the proxy for %s</p></html>",
    "script alone": b"<script>location = '/login'</script><p>Log in to the proxy for %s</p>",
    "with a mark of its encoding": b"\xef\xbb\xbf<!-- portal --><HTML><p>Log in to the proxy for %s</p></HTML>",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_login_page_of_a_proxy_is_not_the_answer_of_the_service(contract: SinkContract, page: bytes) -> None:
    html = {"Content-Type": "text/html; charset=utf-8"}
    contract.server_replies(HttpReply(headers=html, body=page % SECRET.encode() + b" " * 100_000))
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)
    assert "Log in to the proxy for ***" in outcome.reason
    contract.server_accepts()
    assert contract.send() == [Delivered()]


ANSWERS_OF_OTHERS = {
    "nothing": HttpReply(),
    "201": HttpReply(status=201),
    "202": HttpReply(status=202),
    "204": HttpReply(status=204),
    "text": HttpReply(body=b"OK", headers={"Content-Type": "text/html"}),
    "XML": HttpReply(body=b"<?xml version='1.0'?><result>true</result>", headers={"Content-Type": "text/html"}),
    "null": HttpReply(body=b"null"),
    "true": HttpReply(body=b"true"),
    "list": HttpReply(body=b"[]"),
    "object": HttpReply(body=b"{}"),
    "deep": HttpReply(body=b"[" * 50_000),
    "ok true": HttpReply(body=b'{"ok": true}'),
    "ok true and 202": HttpReply(status=202, body=b'{"ok": true, "ts": "1.2", "channel": "C1"}'),
    "ok that is a text": HttpReply(body=b'{"ok": "false", "ts": "1.2", "channel": "C1"}'),
    "success": HttpReply(status=202, body=b'{"status": "success"}'),
    "success of another event": HttpReply(status=202, body=b'{"status": "success", "dedup_key": "another"}'),
    "failure": HttpReply(status=200, body=b'{"status": "error", "error": "no such route"}'),
}


@pytest.mark.parametrize("answer", ANSWERS_OF_OTHERS.values(), ids=ANSWERS_OF_OTHERS)
def test_answer_of_another_program_is_not_that_of_the_service(contract: SinkContract, answer: HttpReply) -> None:
    contract.server_replies(answer)
    (outcome,) = contract.send()
    if contract.subject.any_answer_accepts and b"error" not in answer.body:
        assert outcome == Delivered()
        return
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith(f"HTTP {answer.status}, but the answer "), outcome.reason
    contract.server_accepts()
    assert contract.send() == [Delivered()]


def test_answer_that_cannot_be_decoded_has_a_reason(contract: SinkContract) -> None:
    answer = HttpReply(body=b"no gzip", headers={"Content-Encoding": "gzip", "Content-Type": "text/html"})
    contract.server_replies(answer)
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)
    assert "unreachable" not in outcome.reason
    assert "without a reason" not in outcome.reason


@pytest.mark.parametrize("status", [101, 102, 103])
def test_answer_that_is_not_final_is_no_delivery(contract: SinkContract, status: int) -> None:
    contract.server_replies(HttpReply(status=status))
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)


IN_AN_HOUR = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)


@pytest.mark.parametrize(
    ("header", "after_s"),
    [
        ("7", 7),
        ("soon", 0),
        ("-1", 0),
        ("", 0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
        pytest.param(IN_AN_HOUR, 3_600, id="in an hour"),
    ],
)
def test_retry_after_is_respected(contract: SinkContract, header: str, after_s: float) -> None:
    contract.server_replies(HttpReply(status=429, headers={"Retry-After": header}))
    first, second = contract.send(notification("voter 1"), notification("voter 2"))
    assert isinstance(first, Retry)
    assert isinstance(second, Retry)
    if not contract.subject.respects_retry_after:
        return
    assert first.after_s == pytest.approx(after_s, abs=1_800 if header == IN_AN_HOUR else 0)
    if after_s:
        assert len(contract.server.requests) == 1, "it sent to be left alone"


def test_a_retry_after_beyond_all_numbers_is_no_error(contract: SinkContract) -> None:
    contract.server_replies(HttpReply(status=503, headers={"Retry-After": "9" * 400}))
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)
    assert RetrySchedule().failed(outcome.after_s, NOON_MS) <= 900


def test_date_of_a_retry_after_is_one_of_the_servers_clock(contract: SinkContract) -> None:
    in_an_hour = datetime.fromtimestamp(parsedate_to_datetime(IN_AN_HOUR).timestamp() - 10, UTC)
    headers = {"Retry-After": IN_AN_HOUR, "Date": format_datetime(in_an_hour, usegmt=True)}
    contract.server_replies(HttpReply(status=429, headers=headers))
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)
    assert outcome.after_s == (10 if contract.subject.respects_retry_after else 0)


def test_a_server_that_does_not_answer_is_not_waited_for(contract: SinkContract) -> None:
    contract.server_replies(NoReply())
    outcomes = contract.send(notification("voter 1"), notification("voter 2"), notification("voter 3"), deadline_s=1.0)
    assert [type(outcome) for outcome in outcomes] == [Retry] * 3


@pytest.mark.parametrize("behaviour", [ConnectionReset(), ResetInReply()], ids=["immediately", "in the reply"])
def test_a_reset_connection_is_retried(contract: SinkContract, behaviour: Behaviour) -> None:
    contract.server_replies(behaviour)
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)
    assert not outcome.reason.startswith("unreachable: "), "the class of an exception is no reason"
    contract.server_accepts()
    assert contract.send() == [Delivered()]


def test_a_refused_connection_is_retried(contract: SinkContract) -> None:
    contract.server.close()
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)


def test_a_reply_that_is_not_tls_is_retried(subject: SinkKind, trusted: CertificateAuthority, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, serving() as server:
        del listening
        sink = subject.open(server.url.replace("http:", "https:"), Path(trusted.file), tmp_path)
        contract = SinkContract(subject, sink, server)
        (outcome,) = contract.send(deadline_s=2.0)
        assert isinstance(outcome, Retry)


def test_an_untrusted_server_receives_no_request(subject: SinkKind, server: HttpDouble, tmp_path: Path) -> None:
    stranger = authority(tmp_path / "stranger")
    contract = SinkContract(subject, subject.open(server.url, Path(stranger.file), tmp_path), server)
    (outcome,) = contract.send()
    assert isinstance(outcome, Retry)
    assert server.requests == []


def test_a_rejected_notification_does_not_delay_others(contract: SinkContract) -> None:
    def reject_one(request: ReceivedRequest) -> Behaviour:
        return HttpReply(status=500) if b"voter 1" in request.body else contract.subject.reply(request)

    contract.server.behave = reject_one
    outcomes = contract.send(notification("voter 1"), notification("voter 2"))
    assert [type(outcome) for outcome in outcomes] == [Retry, Delivered]


def test_a_failing_server_gets_two_requests_only(contract: SinkContract) -> None:
    contract.server_replies(HttpReply(status=500))
    outcomes = contract.send(*(notification(f"voter {number}") for number in range(50)))
    assert [type(outcome) for outcome in outcomes] == [Retry] * 50
    assert len(contract.server.requests) == 2
