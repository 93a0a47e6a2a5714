"""What a generic webhook is sent, and how its receiver knows that it is ours."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.delivery.sink_call import Asking
from connectors.secret import Secret
from connectors.sinks.links import Links
from connectors.sinks.sink import Delivered, Retry, Sink
from connectors.sinks.sink_config import Wanted, Webhook
from connectors.sinks.sink_factory import open_sink
from rules.notifications.notification import Notice, NotifyReason
from tests.sinks.server import Answer, Drip, Server, serving
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

LINKS = Links(docs_url="https://docs.example.com/kraftwatch")
FIRING = alert("quorum")
BEGUN = Notice(incident="1n", reason=NotifyReason.FIRING, alerts=(FIRING,), news=(FIRING,), known=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


def opened(server: Server, tmp_path: Path, **more: object) -> Sink:
    place = Webhook(url=Secret(text=f"{server.url}/hook?room=7"), **more)  # type: ignore[arg-type]
    return open_sink(Wanted(place=place, links=LINKS), memory=tmp_path)


def test_a_document_says_all_there_is_to_say(server: Server, tmp_path: Path) -> None:
    assert opened(server, tmp_path).tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30) == [Delivered()]
    (request,) = server.requests
    assert (request.method, request.path, request.headers["Content-Type"]) == (
        *("POST", "/hook?room=7"),
        "application/json",
    )
    document = json.loads(request.body)
    (told,) = document.pop("alerts")
    assert document.pop("news") == [told]
    assert len(document.pop("notice")) == 32
    assert document == {
        "version": 1,
        "incident": "1n",
        "reason": "firing",
        "state": "firing",
        "severity": "critical",
        "cluster": "alpha",
        "summary": "Nobody leads.",
        "started_at": "2026-11-20T05:01:02.345Z",
        "sent_at": "2026-11-20T05:01:02.345Z",
        "links": {"rule": "https://docs.example.com/kraftwatch/rules/no-leader/", "cluster": None},
    }
    assert told["fingerprint"] == FIRING.fingerprint


def test_the_same_notice_has_the_same_identity_and_another_has_another(server: Server, tmp_path: Path) -> None:
    sink = opened(server, tmp_path)
    over = alert("quorum", resolved=True)
    ended = Notice(incident="1n", reason=NotifyReason.RESOLVED, alerts=(over,), news=(over,))
    sink.tell([BEGUN, BEGUN, ended], sent_at_ms=NOON_MS, deadline_s=30)
    one, again, other = (json.loads(request.body)["notice"] for request in server.requests)
    assert one == again != other


def test_the_deadline_holds_however_the_address_is_spelled(server: Server, tmp_path: Path) -> None:
    server.behave = lambda _: Drip()
    sink = open_sink(Wanted(place=Webhook(url=Secret(text=f"{server.url}?room=7"))), memory=tmp_path)
    asking = Asking(sink, [BEGUN], sent_at_ms=NOON_MS, deadline_s=1.0)
    assert asking.answer(30) == [Retry(reason="it has not answered in time")]


def test_what_a_server_says_is_no_control_code(server: Server, tmp_path: Path) -> None:
    server.behave = lambda _: Answer(status=500, body=b"no \x1b[2J\x07")
    told = opened(server, tmp_path).tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    assert told == [Retry(reason="HTTP 500 (no \\x1b[2J\\x07)")]


def test_a_signature_is_over_the_body_and_the_time(server: Server, tmp_path: Path) -> None:
    opened(server, tmp_path, signing_key=Secret(text="k3y")).tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    (request,) = server.requests
    signed = dict(part.split("=") for part in request.headers["X-Kraftwatch-Signature"].split(","))
    assert int(signed["t"]) == NOON_MS // 1000
    expected = hmac.new(b"k3y", signed["t"].encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(signed["v1"], expected)


def test_a_secret_in_a_file_may_change_while_the_job_runs(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("Bearer one\n")
    sink = opened(server, tmp_path, headers=(("Authorization", Secret(file=file)),))
    sink.tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    file.write_text("Bearer two\n")
    sink.tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer one", "Bearer two"]
    file.unlink()
    reason = f"cannot read {file}: no such file or directory"
    assert sink.tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30) == [Retry(reason=reason)]


def test_no_login_of_ours_goes_where_it_was_not_given_to(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login eva password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    opened(server, tmp_path).tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    assert server.requests[0].headers["Authorization"] is None
