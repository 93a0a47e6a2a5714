"""The Apprise sink: what its messages say, and what it takes for delivered."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.sinks.apprise import AppriseSection, title
from connectors.sinks.sink import Delivered, Retry
from connectors.sinks.sink_config import MessageLinks
from rules.notifications.notification import Notification, NotifyReason, single_alert_notification
from tests.sinks.server import HttpReply, ReceivedRequest, serving
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KINDS = [
    SinkKind(
        kind="apprise",
        section=lambda url, ca_file: AppriseSection(
            url=Secret(text=url.replace("https://", f"jsons://eva:{SECRET}@") + f"/{SECRET}")
        ),
    ),
]


def test_title_names_the_state_and_the_cluster() -> None:
    firing, resolved = (title(single_alert_notification(alert("quorum", resolved=each))) for each in (False, True))
    assert firing.startswith("CRITICAL alpha: ")
    assert resolved.startswith("RESOLVED alpha: ")


def test_name_has_no_secret() -> None:
    assert AppriseSection(url=Secret(text=f"tgram://{SECRET}/1")).default_name() == "apprise:tgram"


@pytest.mark.parametrize("name", [None, "telegram"])
@pytest.mark.parametrize("token", [SECRET, f"bot{SECRET}:AAF"])
def test_a_token_in_place_of_the_url_is_not_shown(token: str, name: str | None, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="url is not an Apprise URL: write SCHEMA://") as raised:
        AppriseSection(url=Secret(text=token), name=name).open(MessageLinks(), tmp_path)
    assert SECRET[:8] not in str(raised.value)


@pytest.mark.parametrize("status", [302, 503])
def test_parameters_of_the_url_make_no_delivery_of_a_failure(tmp_path: Path, status: int) -> None:
    with serving() as server:
        elsewhere = HttpReply(status=status, headers={"Location": f"{server.url}/elsewhere"})
        server.behave = lambda request: HttpReply() if request.path == "/elsewhere" else elsewhere
        url = f"{server.url.replace('http:', 'json:')}/?optional=yes&redirect=yes&retry=2"
        sink = AppriseSection(url=Secret(text=url)).open(MessageLinks(), tmp_path)
        (outcome,) = sink.send([single_alert_notification(alert())], sent_at_ms=NOON_MS, deadline_s=60)
        assert isinstance(outcome, Retry)
        assert [request.path for request in server.requests] == ["/"]


@pytest.mark.parametrize(("overflow", "expected"), [("", 1), ("?overflow=split", 2)])
def test_a_message_that_is_longer_than_the_service_allows_is_shortened(
    tmp_path: Path, overflow: str, expected: int
) -> None:
    """Mattermost has at most 4,000 characters, and no titles."""
    texts: list[str] = []

    def reply(request: ReceivedRequest) -> HttpReply:
        text = json.loads(request.body)["text"]
        if len(text) > 4_000:
            return HttpReply(status=400)
        texts.append(text)
        return HttpReply(body=b"ok")

    with serving() as server:
        server.behave = reply
        url = f"{server.url.replace('http:', 'mmost:')}/0123456789abcdef{overflow}"
        sink = AppriseSection(url=Secret(text=url)).open(MessageLinks(), tmp_path)
        storm = tuple(alert(f"voter {number} " + "x" * 290, evidence={"e": "y" * 3_000}) for number in range(20))
        one = Notification(incident="1n", reason=NotifyReason.FIRING, alerts=storm, new_transitions=storm)
        assert sink.send([one], sent_at_ms=NOON_MS, deadline_s=60) == [Delivered()]

    assert len(texts) == expected
    assert texts[0].startswith("CRITICAL alpha: ")


@pytest.mark.parametrize(
    ("service", "answer", "delivered"),
    [
        ("synology", {"success": True}, True),
        ("synology", {"success": False, "error": {"code": 404}}, False),
        ("json", {"errcode": 0, "errmsg": "ok"}, True),
        ("json", {"errcode": 310000, "errmsg": "keywords not in content"}, False),
        ("json", {"ok": False, "description": "chat not found"}, False),
        ("json", {"status": "Error", "message": "no such room"}, False),
        ("json", {"status": "success"}, True),
        ("json", {"result": "failed"}, False),
        ("json", {"error": "One or more notifications could not be sent"}, False),
        ("json", {"error": {"code": 404}}, False),
        ("json", {"error": None}, True),
        ("json", {"error": ""}, True),
        ("json", ["success", False], True),
        ("json", {"code": 200}, True),
    ],
)
def test_an_answer_that_reports_an_error_with_a_status_of_success_is_no_delivery(
    tmp_path: Path, service: str, answer: object, delivered: bool
) -> None:
    """As of Synology Chat, DingTalk and WeCom: Apprise looks at the status alone."""
    with serving() as server:
        server.behave = lambda _: HttpReply(body=json.dumps(answer).encode())
        url = f"{server.url.replace('http:', f'{service}:')}/{SECRET}"
        sink = AppriseSection(url=Secret(text=url)).open(MessageLinks(), tmp_path)
        (outcome,) = sink.send([single_alert_notification(alert())], sent_at_ms=NOON_MS, deadline_s=60)
    text = json.dumps(answer)
    assert outcome == (
        Delivered() if delivered else Retry(reason=f"HTTP 200, but the answer reports an error ({text})")
    )


def test_a_failure_has_the_reason_of_its_own_service(tmp_path: Path) -> None:
    """Apprise calls services in threads of its own, and logs why they failed."""
    both_called = threading.Barrier(2, timeout=60)

    def failing(status: int) -> Retry:
        def reply(_: ReceivedRequest) -> HttpReply:
            both_called.wait()
            return HttpReply(status=status)

        with serving() as server:
            server.behave = reply
            sink = AppriseSection(url=Secret(text=server.url.replace("http:", "json:"))).open(MessageLinks(), tmp_path)
            (outcome,) = sink.send([single_alert_notification(alert())], sent_at_ms=NOON_MS, deadline_s=60)
        assert isinstance(outcome, Retry)
        return outcome

    with ThreadPoolExecutor() as pool:
        reasons = [outcome.reason for outcome in pool.map(failing, (401, 503))]
    assert reasons == [
        "Failed to send JSON POST notification: Verification Failed., error=401.",
        "Failed to send JSON POST notification: Servers are overloaded., error=503.",
    ]


@pytest.mark.parametrize("refused", ["sender", "only recipient", "one of two recipients", "content", "nobody"])
def test_a_mail_that_a_recipient_does_not_get_is_no_delivery(tmp_path: Path, refused: str) -> None:
    with mail_server(refused) as (port, mails):
        to = "cc=sre@example.com&" if refused == "one of two recipients" else ""
        url = f"mailto://127.0.0.1:{port}/?{to}mode=insecure&from=kraftwatch@example.com&to=eva@example.com"
        sink = AppriseSection(url=Secret(text=url)).open(MessageLinks(), tmp_path)
        (outcome,) = sink.send([single_alert_notification(alert())], sent_at_ms=NOON_MS, deadline_s=60)
        if refused == "nobody":
            assert outcome == Delivered()
            assert b"No leader elected." in mails[0]
        else:
            assert isinstance(outcome, Retry), mails


@contextmanager
def mail_server(refused: str) -> Iterator[tuple[int, list[bytes]]]:
    """Runs a mail server, over SMTP, that refuses a part of each mail; yields its port and the mails it accepted."""
    mails: list[bytes] = []

    class Session(StreamRequestHandler):
        def handle(self) -> None:
            recipients = 0
            self._say(b"220 mail")
            while line := self.rfile.readline():
                command = line[:4].upper()
                if command == b"QUIT":
                    self._say(b"221 bye")
                    return
                if command == b"DATA" and recipients:
                    self._say(b"354 go on")
                    mail = b"".join(iter(self.rfile.readline, b".\r\n"))
                    mails.extend([] if refused == "content" else [mail])
                    self._say(b"554 spam" if refused == "content" else b"250 queued")
                    continue
                no = command == b"DATA" or (command == b"MAIL" and refused == "sender")
                if command == b"RCPT":
                    no = refused == "only recipient" or (refused == "one of two recipients" and b"sre@" in line)
                    recipients += not no
                self._say(b"550 refused" if no else b"250 ok")

        def _say(self, line: bytes) -> None:
            self.wfile.write(line + b"\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server.server_address[1], mails
        server.shutdown()
