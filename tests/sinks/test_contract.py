"""The contract of every kind of sink: `contract.table` says what each makes of what happens, cell by cell.

In each cell, whatever happens: a call ends at its deadline, no notification is lost from the outcomes, and a reason is
one short line without a secret.
"""

import json
import logging
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import pytest

from connectors.delivery.retries import RetrySchedule
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from rules.alert import Alert
from rules.notifications.notification import Notification, NotifyReason
from tests.sinks.connect_proxy import proxying
from tests.sinks.local_kind import LOCAL_KINDS, LocalKind
from tests.sinks.names_with_line_breaks import EVIL, hostile, of_anything, spread, two_clusters
from tests.sinks.server import (
    DRIPPING_BODIES,
    DRIPS,
    Behaviour,
    ConnectionReset,
    Drip,
    HttpDouble,
    HttpReply,
    NoReply,
    ReceivedRequest,
    ResetInReply,
    dripping,
    serving,
)
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.unit.connectors.kafka.certificates import CertificateAuthority, authority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.rules.hidden_text import LINE_BREAKS, fired, texts

DEADLINE_S = 60.0
SHORT_S = 1.0
"""The deadline where a server does not answer."""
GRACE_S = 30.0
"""Tolerance for slow machines: a call that takes longer than the deadline and this was not bounded at all."""


def outcomes_of(sink: Sink, *sent: Notification, deadline_s: float = DEADLINE_S) -> Sequence[Outcome]:
    """Sends notifications, and checks what holds of each call."""
    began = time.monotonic()
    outcomes = sink.send(sent, sent_at_ms=NOON_MS, deadline_s=deadline_s)
    assert time.monotonic() - began < deadline_s + GRACE_S
    assert len(outcomes) == len(sent)
    for outcome in outcomes:
        if not isinstance(outcome, Delivered):
            assert SECRET not in outcome.reason
            assert outcome.reason.strip() == outcome.reason != ""
            assert "\n" not in outcome.reason
            assert "Traceback" not in outcome.reason
            assert "without a reason" not in outcome.reason
            assert "unreachable: " not in outcome.reason, "the class of an exception is no reason"
            assert len(outcome.reason) < 300
    return outcomes


def notification(
    subject: str = "voter 2", *, reason: NotifyReason = NotifyReason.FIRING, **changed: Any
) -> Notification:
    one: Alert = alert(subject, resolved=reason is NotifyReason.RESOLVED, **changed)
    new = () if reason is NotifyReason.REPEATED else (one,)
    return Notification(incident=one.fingerprint, reason=reason, alerts=(one,), new_transitions=new)


@dataclass(frozen=True)
class Served:
    """A sink and its server."""

    kind: SinkKind
    server: HttpDouble
    ca_file: Path
    folder: Path
    sink: Sink

    def replies(self, behaviour: Behaviour) -> None:
        self.server.behave = lambda _: behaviour

    def send(self, *sent: Notification, deadline_s: float = DEADLINE_S) -> Sequence[Outcome]:
        return outcomes_of(self.sink, *(sent or (notification(),)), deadline_s=deadline_s)

    def accepts_again(self) -> None:
        """What was not accepted is, once the service works."""
        self.server.behave = self.kind.reply
        assert self.send() == [Delivered()]


# --- a service that works --------------------------------------------------------------------------------------------

LIFE = [
    notification(reason=reason)
    for reason in (NotifyReason.FIRING, NotifyReason.CHANGED, NotifyReason.REPEATED, NotifyReason.RESOLVED)
]
FIVE = [notification(f"voter {number}") for number in range(5)]
HOSTILE = "<!channel> @here &amp; ``` \x1b[31m \u202e \ud800 *bold* <https://evil.example|click> \x00 " + "x" * 9_000
HOSTILE_TEXT = notification(
    HOSTILE, summary=HOSTILE, cluster=HOSTILE, evidence={HOSTILE: [HOSTILE] * 50}, remedy=(HOSTILE,) * 60
)
_MANY = tuple(alert(f"voter {number}", evidence={"line": "x" * 500}) for number in range(300))
STORM = Notification(incident="57" * 8, reason=NotifyReason.FIRING, alerts=_MANY, new_transitions=_MANY)
WORKING: Mapping[str, Sequence[Notification]] = {
    "fires, changes, is repeated and resolves": LIFE,
    "five at once": FIVE,
    "text from a cluster is hostile": [HOSTILE_TEXT],
    "one of 300 alerts": [STORM],
}


def sent_to_service(sent: Sequence[Notification], served: Served) -> Sequence[Outcome]:
    outcomes = served.send(*sent)
    assert_in_order(sent, [request.body.decode() for request in served.server.requests])
    return outcomes


def sent_to_destination(sent: Sequence[Notification], kind: LocalKind, folder: Path) -> Sequence[Outcome]:
    assert kind.open is not None
    sink = kind.open(folder)
    outcomes = outcomes_of(sink, *sent)
    assert_in_order(sent, kind.shown(folder, sink).splitlines())
    return outcomes


def assert_in_order(sent: Sequence[Notification], received: Sequence[str]) -> None:
    """Each of five is in what was received, in the order in which they were sent."""
    if sent is FIVE:
        firsts = [next(at for at, text in enumerate(received) if one.root.subject in text) for one in sent]
        assert firsts == sorted(firsts)


# --- a name that breaks the line -------------------------------------------------------------------------------------

MACHINE_KINDS = {"webhook"}
"""What they send is data: a program reads it, and the JSON escapes what people must not see."""


def of_rules(line_break: str) -> Notification:
    """An alert that a rule has made of such names: of hosts, and of topics."""
    found = two_clusters(fired(hostile(line_break)))
    assert EVIL in str(texts(found.alerts))
    return found


MADE = {"of a rule has line breaks": of_rules, "of anything has line breaks": of_anything}


def broken_lines(made: Callable[[str], Notification]) -> Sequence[Notification]:
    return [replace(made(line_break), incident=f"{number}") for number, line_break in enumerate(LINE_BREAKS)]


def received_texts(request: ReceivedRequest) -> list[str]:
    """Returns every text in a request, as the service reads it."""
    body = request.body.decode()
    try:
        return texts(json.loads(body))
    except ValueError:
        return [text for pair in parse_qsl(body) for text in pair]


def lines_to_service(made: Callable[[str], Notification], served: Served) -> Sequence[Outcome]:
    outcomes = served.send(*broken_lines(made))
    for request in served.server.requests:
        assert spread(request.body.decode()) == []
        if made is of_rules or served.kind.kind not in MACHINE_KINDS:
            assert spread(received_texts(request)) == []
    assert any(EVIL in request.body.decode() for request in served.server.requests)
    return outcomes


def lines_to_destination(made: Callable[[str], Notification], kind: LocalKind, folder: Path) -> Sequence[Outcome]:
    assert kind.open is not None
    sink = kind.open(folder)
    outcomes = outcomes_of(sink, *broken_lines(made))
    shown = kind.shown(folder, sink)
    assert spread(shown) == []
    assert EVIL in shown
    return outcomes


# --- a service that answers something else ---------------------------------------------------------------------------

STATUSES = (302, 307, 400, 401, 403, 404, 405, 408, 410, 413, 422, 429, 500, 502, 503, 504)
PAGES = {
    "small": b"<html><p>Log in to the proxy for %s</p></html>",
    "with a type": b"\n<!DOCTYPE html>\n<html><p>Log in to the proxy for %s</p></html>",
    "script alone": b"<script>location = '/login'</script><p>Log in to the proxy for %s</p>",
    "with a mark of its encoding": b"\xef\xbb\xbf<!-- portal --><HTML><p>Log in to the proxy for %s</p></HTML>",
}
HTML = {"Content-Type": "text/html; charset=utf-8"}
ANSWERS = {
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
NO_GZIP = HttpReply(body=b"no gzip", headers={"Content-Encoding": "gzip", "Content-Type": "text/html"})


def answered(reply: HttpReply, served: Served) -> Sequence[Outcome]:
    """A redirection is not followed, and the dispatcher retries, not the sink."""
    elsewhere = {"Location": f"{served.server.url}/elsewhere", **reply.headers}
    served.replies(replace(reply, headers=elsewhere))
    outcomes = served.send()
    assert not [request for request in served.server.requests if request.path == "/elsewhere"]
    if isinstance(outcomes[0], Retry):
        assert len(served.server.requests) == 1
    served.accepts_again()
    return outcomes


def one_of_two_fails(served: Served) -> Sequence[Outcome]:
    def reply(request: ReceivedRequest) -> Behaviour:
        return HttpReply(status=500) if b"voter 1" in request.body else served.kind.reply(request)

    served.server.behave = reply
    failed, *others = served.send(notification("voter 1"), notification("voter 2"))
    assert isinstance(failed, Retry)
    return others


def all_of_fifty_fail(served: Served) -> Sequence[Outcome]:
    """A service that is down is not flooded."""
    served.replies(HttpReply(status=500))
    outcomes = served.send(*(notification(f"voter {number}") for number in range(50)))
    assert len(served.server.requests) == 2
    return outcomes


# --- a service that asks to wait -------------------------------------------------------------------------------------

NOW = datetime.now(UTC)
IN_AN_HOUR = format_datetime(NOW + timedelta(hours=1), usegmt=True)
WAITS: Mapping[str, Mapping[str, str]] = {
    "7": {"Retry-After": "7"},
    "soon": {"Retry-After": "soon"},
    "-1": {"Retry-After": "-1"},
    "empty": {"Retry-After": ""},
    "1970": {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"},
    "an hour ahead by our clock": {"Retry-After": IN_AN_HOUR},
    "10 s ahead by the server's clock": {
        "Retry-After": IN_AN_HOUR,
        "Date": format_datetime(NOW + timedelta(seconds=3_590), usegmt=True),
    },
}


def asked_to_wait(headers: Mapping[str, str], served: Served) -> Sequence[Outcome]:
    """After one answer that asks for it, the rest is not sent."""
    served.replies(HttpReply(status=429, headers=headers))
    outcomes = served.send(notification("voter 1"), notification("voter 2"))
    if isinstance(outcomes[0], Retry) and outcomes[0].after_s:
        assert len(served.server.requests) == 1
    return outcomes


def asked_to_wait_for_ever(served: Served) -> Sequence[Outcome]:
    served.replies(HttpReply(status=503, headers={"Retry-After": "9" * 400}))
    (outcome,) = served.send()
    assert isinstance(outcome, Retry)
    assert RetrySchedule().failed(outcome.after_s, NOON_MS) <= 900
    return [replace(outcome, after_s=0)]


# --- no service ------------------------------------------------------------------------------------------------------

THREE = FIVE[:3]
HANDSHAKE = Drip(begin=b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc", each=b"\x00")
"""A ServerHello that never ends."""
TUNNEL = Drip(begin=b"HTTP/1.1 200 Connected\r\n", each=b"X: y\r\n")


def behaves(behaviour: Behaviour, served: Served) -> Sequence[Outcome]:
    served.replies(behaviour)
    outcomes = served.send()
    served.accepts_again()
    return outcomes


def does_not_answer(served: Served) -> Sequence[Outcome]:
    served.replies(NoReply())
    return served.send(*THREE, deadline_s=SHORT_S)


def drips(drip: Drip, served: Served) -> Sequence[Outcome]:
    served.replies(drip)
    return served.send(deadline_s=SHORT_S)


def refuses(served: Served) -> Sequence[Outcome]:
    served.server.close()
    return served.send()


def opened_for(served: Served, url: str, ca_file: Path | None = None) -> Sink:
    return served.kind.open(url, ca_file or served.ca_file, served.folder)


def is_not_tls(served: Served) -> Sequence[Outcome]:
    with serving() as plain:
        sink = opened_for(served, plain.url.replace("http:", "https:"))
        return outcomes_of(sink, notification(), deadline_s=2.0)


def is_not_trusted(served: Served) -> Sequence[Outcome]:
    stranger = authority(served.folder / "stranger")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("REQUESTS_CA_BUNDLE", stranger.file)
        outcomes = outcomes_of(opened_for(served, served.server.url, Path(stranger.file)), notification())
    assert served.server.requests == []
    return outcomes


def handshake_drips(served: Served) -> Sequence[Outcome]:
    with dripping(HANDSHAKE) as port:
        return outcomes_of(opened_for(served, f"https://127.0.0.1:{port}"), notification(), deadline_s=SHORT_S)


def proxy_drips(served: Served) -> Sequence[Outcome]:
    with dripping(TUNNEL) as port, through(f"http://127.0.0.1:{port}"):
        return outcomes_of(opened_for(served, "https://127.0.0.1:9"), notification(), deadline_s=SHORT_S)


def behind_a_proxy(served: Served) -> Sequence[Outcome]:
    with proxying() as proxy, through(proxy.url):
        outcomes = outcomes_of(opened_for(served, served.server.url), notification())
        assert set(proxy.targets) == {f"127.0.0.1:{served.server.port}"}
        assert proxy.refused == []
    assert served.server.requests
    return outcomes


def refused_by_a_proxy(served: Served) -> Sequence[Outcome]:
    with proxying() as proxy, through(proxy.url.replace("proxy-password", SECRET)):
        outcomes = outcomes_of(opened_for(served, served.server.url), notification())
        assert proxy.targets == []
    assert served.server.requests == []
    return outcomes


@contextmanager
def through(proxy: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HTTPS_PROXY", proxy)
        yield


def names_no_secret(served: Served) -> Sequence[Outcome]:
    assert SECRET not in served.sink.options.name
    assert SECRET not in repr(served.sink)
    assert SECRET not in repr(served.kind.section("https://x", Path("ca")))
    return served.send()


def broken(kind: LocalKind, folder: Path) -> Sequence[Outcome]:
    sink = kind.open_broken(folder)
    assert SECRET not in sink.options.name + repr(sink)
    return outcomes_of(sink, *THREE, deadline_s=5.0)


def silent(kind: LocalKind, folder: Path) -> Sequence[Outcome]:
    assert kind.open_silent is not None
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return outcomes_of(kind.open_silent(listening.getsockname()[1]), *THREE, deadline_s=SHORT_S)


# --- the table -------------------------------------------------------------------------------------------------------

OfService: TypeAlias = Callable[[Served], Sequence[Outcome]]
OfDestination: TypeAlias = Callable[[LocalKind, Path], Sequence[Outcome]]
SERVICES: Mapping[str, OfService] = {
    **{name: partial(sent_to_service, sent) for name, sent in WORKING.items()},
    **{f"text {of}": partial(lines_to_service, made) for of, made in MADE.items()},
    "names and settings": names_no_secret,
    **{
        f"HTTP {each}": partial(answered, HttpReply(status=each, body=b'{"error": "%s"}' % SECRET.encode()))
        for each in STATUSES
    },
    **{f"HTTP {each}": partial(behaves, HttpReply(status=each)) for each in (101, 102, 103)},
    **{
        f"page of a proxy, {name}": partial(
            behaves, HttpReply(headers=HTML, body=page % SECRET.encode() + b" " * 100_000)
        )
        for name, page in PAGES.items()
    },
    **{f"answer: {name}": partial(behaves, answer) for name, answer in ANSWERS.items()},
    "answer: no gzip": partial(behaves, NO_GZIP),
    "the other of two after HTTP 500": one_of_two_fails,
    "HTTP 500 for all of fifty": all_of_fifty_fail,
    **{f"Retry-After: {name}": partial(asked_to_wait, headers) for name, headers in WAITS.items()},
    "Retry-After: beyond all numbers": asked_to_wait_for_ever,
    "refused": refuses,
    "reset": partial(behaves, ConnectionReset()),
    "reset in the answer": partial(behaves, ResetInReply()),
    "no answer": does_not_answer,
    **{f"{name} without end": partial(drips, DRIPS[name]) for name in ("header", "100 Continue", "body of an error")},
    "body of an accepting answer without end": partial(drips, DRIPPING_BODIES["body"]),
    "TLS handshake without end": handshake_drips,
    "no TLS": is_not_tls,
    "certificate of a stranger": is_not_trusted,
    "through a proxy": behind_a_proxy,
    "proxy refuses the login": refused_by_a_proxy,
    "proxy's answer without end": proxy_drips,
}
DESTINATIONS: Mapping[str, OfDestination] = {
    **{name: partial(sent_to_destination, sent) for name, sent in WORKING.items()},
    **{f"text {of}": partial(lines_to_destination, made) for of, made in MADE.items()},
    "refused": broken,
    "no answer": silent,
}
TABLE = Path(__file__).with_name("contract.table")


def table() -> tuple[list[str], dict[str, tuple[list[str], str]]]:
    """Returns the kinds, and by what happens: the outcome of each kind, and what each reason of a retry contains."""
    lines = [line for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    (_, *kinds, _), *rows = (re.split(r" {2,}", line.strip()) for line in lines)
    return kinds, {name: (cells, reason) for name, *cells, reason in rows}


KINDS, ROWS = table()


def test_the_table_has_all_kinds_and_all_that_happens() -> None:
    assert [str(each) for each in (*SINK_KINDS, *LOCAL_KINDS)] == KINDS
    assert [*SERVICES] == [*ROWS]
    assert DESTINATIONS.keys() <= ROWS.keys()


@pytest.mark.parametrize("what", SERVICES)
def test_each_kind_of_sink_keeps_the_contract(
    what: str,
    trusted: CertificateAuthority,
    certificate: ssl.SSLContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    cells, reason = ROWS[what]
    found = [*of_services(what, trusted, certificate, tmp_path), *of_destinations(what, tmp_path)]

    assert [word(outcomes) for outcomes in found] == cells
    of_retries = [one.reason for outcomes in found for one in outcomes if isinstance(one, Retry)]
    assert [one for one in of_retries if reason not in ("-", *re.findall(re.escape(reason), one))] == []
    assert SECRET not in caplog.text


def of_services(
    what: str, trusted: CertificateAuthority, certificate: ssl.SSLContext, folder: Path
) -> Iterator[Sequence[Outcome]]:
    for kind in SINK_KINDS:
        store = folder / kind.kind
        store.mkdir()
        with serving(certificate) as server:
            server.behave = kind.reply
            ca_file = Path(trusted.file)
            yield SERVICES[what](Served(kind, server, ca_file, store, kind.open(server.url, ca_file, store)))


def of_destinations(what: str, folder: Path) -> Iterator[Sequence[Outcome]]:
    situation = DESTINATIONS.get(what)
    for kind in LOCAL_KINDS:
        applies = kind.open_silent if situation is silent else kind.open_broken if situation is broken else kind.open
        yield () if situation is None or applies is None else situation(kind, folder)


def word(outcomes: Sequence[Outcome]) -> str:
    """Returns a cell of the table: the outcomes of a call, each once."""
    return ", ".join(dict.fromkeys(map(_word, outcomes))) or "-"


def _word(outcome: Outcome) -> str:
    match outcome:
        case Delivered():
            return "delivered"
        case Rejected():
            return "rejected"
        case Retry(after_s=0):
            return "retry"
        case Retry(after_s=after_s):
            return f"in {after_s:.0f} s" if after_s < 1_800 else "in an hour"
