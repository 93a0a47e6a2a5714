"""The webhook sink: its documents and its signature."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.settings.secret import Secret
from connectors.sinks.sink import Delivered, Retry, Sink
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.webhook import WebhookSection
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, Notified, NotifyReason, TransitionStatus
from rules.notifications.planner import NotificationPlanner
from tests.sinks.server import HttpDouble, HttpReply, serving
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KINDS = [
    SinkKind(
        kind="webhook",
        section=lambda url, ca_file: WebhookSection(
            url=Secret(text=url.replace("://", f"://eva:{SECRET}@") + f"/{SECRET}?key={SECRET}"),
            headers={"X-Key": Secret(text=SECRET)},
            signing_key=Secret(text=SECRET),
            ca_file=ca_file,
        ),
    ),
]

LINKS = MessageLinks(docs_url="https://docs.example.com/kraftwatch")
FIRING = alert("quorum")
BEGUN = Notification(
    incident="1n", reason=NotifyReason.FIRING, alerts=(FIRING,), new_transitions=(FIRING,), previously_notified=False
)


@pytest.fixture
def server() -> Iterator[HttpDouble]:
    with serving() as server:
        yield server


def opened(server: HttpDouble, tmp_path: Path, **more: object) -> Sink:
    config = WebhookSection(url=Secret(text=f"{server.url}/hook?room=7"), **more)  # type: ignore[arg-type]
    return config.open(LINKS, tmp_path)


def test_a_document_has_all_documented_fields(server: HttpDouble, tmp_path: Path) -> None:
    assert opened(server, tmp_path).send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30) == [Delivered()]
    (request,) = server.requests
    assert (request.method, request.path, request.headers["Content-Type"]) == (
        *("POST", "/hook?room=7"),
        "application/json",
    )
    document = json.loads(request.body)
    (document_alert,) = document.pop("alerts")
    assert document.pop("new_transitions") == [document_alert]
    assert len(document.pop("notice")) == 32
    assert document == {
        "version": 1,
        "incident": "1n",
        "reason": "firing",
        "state": "firing",
        "severity": "critical",
        "cluster": "alpha",
        "summary": "No leader elected.",
        "started_at": "2026-11-20T05:01:02.345Z",
        "sent_at": "2026-11-20T05:01:02.345Z",
        "links": {"rule": "https://docs.example.com/kraftwatch/rules/no-leader/", "cluster": None},
    }
    assert document_alert["fingerprint"] == FIRING.fingerprint


def test_a_repetition_that_is_sent_again_has_the_same_id_and_the_next_one_another(
    server: HttpDouble, tmp_path: Path
) -> None:
    planner = NotificationPlanner(RULES, repeat_ms=Millis(3_600_000))
    sink = opened(server, tmp_path)

    def send(notified_ms: Millis, now_ms: Millis) -> str:
        incidents = {"1n": [TransitionStatus(alert=FIRING, delivered=True)]}
        plan = planner.plan(incidents, last_notified={"1n": Notified(at_ms=notified_ms)}, holds=(), now_ms=now_ms)
        sink.send(plan.notifications, sent_at_ms=now_ms, deadline_s=30)
        return str(json.loads(server.requests[-1].body)["notice"])

    later, latest = Millis(NOON_MS + 3_600_000), Millis(NOON_MS + 7_200_000)
    # The response was lost.
    assert send(NOON_MS, later) == send(NOON_MS, Millis(later + 1_000)) != send(later, latest)


@pytest.mark.parametrize(
    ("kind", "answer", "delivered"),
    [
        (
            "text/plain",
            "Webhook message delivery failed with error: Microsoft Teams endpoint returned HTTP error 429",
            False,
        ),
        ("text/plain; charset=utf-8", '{"status": "error", "message": "no such room"}', False),
        ("application/json", '{"success": false}', False),
        ("application/json", '{"status": "ok", "error": null}', True),
        ("text/plain", "1", True),
        ("text/plain", "the last delivery failed", True),
        ("text/plain", "x" * 5_000 + '{"ok": false}', True),
    ],
)
def test_an_answer_of_status_200_that_says_it_failed_is_no_delivery(
    server: HttpDouble, tmp_path: Path, kind: str, answer: str, delivered: bool
) -> None:
    """As relays pass it on: some answer 200 once they have sent the request on."""
    server.behave = lambda _: HttpReply(body=answer.encode(), headers={"Content-Type": kind})

    (outcome,) = opened(server, tmp_path).send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)

    assert isinstance(outcome, Delivered) == delivered
    if isinstance(outcome, Retry):
        assert outcome.reason == f"HTTP 200, but the answer reports an error ({answer})"


def test_control_codes_in_a_response_are_escaped(server: HttpDouble, tmp_path: Path) -> None:
    server.behave = lambda _: HttpReply(status=500, body=b"no \x1b[2J\x07")
    outcomes = opened(server, tmp_path).send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    assert outcomes == [Retry(reason="HTTP 500 (no \\x1b[2J\\x07)")]


def test_the_signature_covers_the_body_and_the_time(server: HttpDouble, tmp_path: Path) -> None:
    opened(server, tmp_path, signing_key=Secret(text="k3y")).send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    (request,) = server.requests
    signed = dict(part.split("=") for part in request.headers["X-Kraftwatch-Signature"].split(","))
    assert int(signed["t"]) == NOON_MS // 1000
    expected = hmac.new(b"k3y", signed["t"].encode() + b"." + request.body, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(signed["v1"], expected)


def test_a_secret_in_a_file_may_change_while_the_job_runs(server: HttpDouble, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("Bearer one\n")
    sink = opened(server, tmp_path, headers={"Authorization": Secret(file=file)})
    sink.send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    file.write_text("Bearer two\n")
    sink.send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer one", "Bearer two"]
    file.unlink()
    reason = f"cannot read {file}: no such file or directory"
    assert sink.send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30) == [Retry(reason=reason)]


def test_credentials_of_netrc_are_not_sent(server: HttpDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login eva password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    opened(server, tmp_path).send([BEGUN], sent_at_ms=NOON_MS, deadline_s=30)
    assert server.requests[0].headers["Authorization"] is None
