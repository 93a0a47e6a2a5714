"""The buttons of Slack's messages: a person's acknowledgement reaches the ledger and, from there, the message."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.sinks.sink_config import MessageLinks
from tests.eventually import eventually
from tests.sinks.responding_job import RespondingJob, lagging
from tests.sinks.server import HttpDouble, HttpReply, ReceivedRequest
from tests.sinks.sink_kind import local_slack
from tests.sinks.slack_double import ChannelMessage, SlackDouble
from tests.sinks.slack_socket import OPEN, SlackSocket, check
from tests.unit.connectors.kafka.certificates import CertificateAuthority

TOKEN, APP_TOKEN = "xoxb-0123456789abcdef", "xapp-1-A0-canary-0123456789"


class SlackJob(RespondingJob):
    """A job with one Slack sink that has buttons, and the double of Slack."""

    def __init__(self, server: HttpDouble, socket: SlackSocket, ca_file: Path, folder: Path) -> None:
        self.slack, self.socket = SlackDouble(token=TOKEN), socket
        server.behave = self._reply
        section = local_slack(
            ca_file,
            channel="#kafka",
            token=Secret(text=TOKEN),
            app_token=Secret(text=APP_TOKEN),
            api_url=f"{server.url}/api/",
        )
        type(section).socket_port = socket.port
        links = MessageLinks(page_url="https://watch.example.com")
        super().__init__(folder, lambda: [section.open(links, folder)])

    def _reply(self, request: ReceivedRequest) -> HttpReply:
        return self.socket.reply(request) if request.path == OPEN else self.slack.reply(request)

    def button(self, action_id: str) -> dict[str, Any]:
        (message,) = self.slack.channel_messages
        (block,) = [each for each in message.blocks if each["type"] == "actions"]
        (found,) = [each for each in block["elements"] if each["action_id"] == action_id]
        return dict(found)

    @property
    def text(self) -> str:
        return str(self.slack.channel_messages[0].blocks)


@pytest.fixture
def job(server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path) -> Iterator[SlackJob]:
    with SlackSocket(APP_TOKEN) as socket:
        job = SlackJob(server, socket, Path(trusted.file), tmp_path)
        yield job
        job.stop()


def test_a_pressed_button_acknowledges_what_the_message_shows_and_the_message_says_so(job: SlackJob) -> None:
    job.fire(lagging())
    job.responses.follow(job.sinks)
    job.socket.connected()
    acknowledge = job.button("acknowledge")

    job.socket.press(acknowledge)
    job.notifying.send()

    assert "Acknowledged by ana" in job.text
    assert [each.body["text"] for each in job.slack.replies] == [":eyes: Acknowledged by ana"]
    assert [one.by for one in job.acknowledgements.read()] == ["ana"]
    job.socket.press(job.button("end-acknowledgement"))
    job.notifying.send()
    assert "Acknowledged by" not in job.text
    assert job.slack.replies[-1].body["text"].startswith("No longer acknowledged.")
    assert job.slack.replies[-1].body["reply_broadcast"] is True
    assert job.slack.invalid == []


def test_a_button_acknowledges_no_alert_that_the_message_did_not_show(job: SlackJob) -> None:
    shown = lagging(2)
    job.fire(shown)
    job.responses.follow(job.sinks)
    job.socket.connected()
    acknowledge = job.button("acknowledge")
    job.fire(shown, lagging(3))

    job.socket.press(acknowledge)

    assert [one.fingerprint for one in job.acknowledgements.read()] == [shown.fingerprint]


def silenced_message(job: SlackJob) -> ChannelMessage:
    """Fires an alert and silences it by the button of its message; returns the message, which says so."""
    job.fire(lagging())
    job.responses.follow(job.sinks)
    job.socket.connected()
    (message,) = job.slack.channel_messages
    job.socket.press(job.button("silence"), ts=message.ts)
    eventually(lambda: check(bool(job.slack.replies), "the message does not show it"), within_s=20)
    return message


def test_a_button_silences_the_alert_for_an_hour_and_another_opens_the_page(job: SlackJob) -> None:
    message = silenced_message(job)

    (reply,) = job.slack.replies
    assert (reply.thread_ts, reply.body["text"].partition(" until ")[0]) == (message.ts, ":no_bell: Silenced by ana")
    (silence,) = job.silences.read()
    found = (silence.cluster, silence.rule, silence.subject, silence.author)
    assert found == ("prod", "voter-lagging", "voter 2", "ana")
    assert silence.ends_at_ms - silence.starts_at_ms == 3_600_000
    page = job.button("page")
    assert page["url"] == "https://watch.example.com/clusters/prod"
    job.socket.press(page)


def test_the_end_of_a_pressed_silence_is_a_reply_while_the_alert_fires(job: SlackJob) -> None:
    message = silenced_message(job)
    (silence,) = job.silences.read()
    job.silences.end(silence.id, now_ms=wall_ms())
    job.notifying.send()
    job.notifying.send()

    _, ended = job.slack.replies
    assert (ended.thread_ts, ended.body["text"].partition(" ended ")[0]) == (message.ts, ":bell: The silence by ana")


def test_a_silence_of_what_has_resolved_is_said_to_have_no_effect(job: SlackJob) -> None:
    job.fire(lagging())
    job.responses.follow(job.sinks)
    job.socket.connected()
    (message,) = job.slack.channel_messages
    silence = job.button("silence")
    job.fire()
    said = len(job.slack.replies)

    job.socket.press(silence, ts=message.ts)

    eventually(lambda: check(len(job.slack.replies) > said, "nothing is said"), within_s=20)
    assert job.slack.replies[-1].body["text"].startswith("Nothing is silenced")
    assert job.silences.read() == ()


def test_a_resolved_incident_has_no_buttons(job: SlackJob) -> None:
    job.fire(lagging())
    job.fire()
    (message,) = job.slack.channel_messages
    assert [each for each in message.blocks if each["type"] == "actions"] == []


def test_the_connection_is_opened_again_and_is_held_by_the_active_job_alone(job: SlackJob) -> None:
    job.fire(lagging())
    assert job.socket.connections == 0
    job.responses.follow(job.sinks)
    job.socket.connected()
    job.socket.send({"type": "disconnect", "reason": "refresh_requested"})
    eventually(lambda: check(job.socket.connections == 2, "no new connection"), within_s=20)
    eventually(lambda: check(len(job.socket.opened) == 1, "the old one is open"), within_s=20)
    job.socket.press(job.button("acknowledge"))
    assert len(job.acknowledgements.read()) == 1

    job.responses.stop()

    eventually(lambda: check(not job.socket.opened, "the connection is still open"), within_s=20)
    assert job.socket.connections == 2


def test_a_refused_token_is_logged_once_and_never_shown(job: SlackJob, caplog: pytest.LogCaptureFixture) -> None:
    job.socket.app_token = "xapp-another"
    caplog.set_level(logging.DEBUG)
    job.responses.follow(job.sinks)
    eventually(lambda: check("the buttons have no effect" in caplog.text, "nothing is logged"), within_s=20)
    assert "slack:#kafka: the buttons have no effect: Slack error: the token is invalid; trying again" in caplog.text
    assert APP_TOKEN not in caplog.text


def test_what_no_message_has_is_answered_and_changes_nothing(job: SlackJob, caplog: pytest.LogCaptureFixture) -> None:
    job.fire(lagging())
    job.responses.follow(job.sinks)
    job.socket.connected()
    for value in ("", "no-number", "x" * 3_000):
        job.socket.press({"action_id": "acknowledge", "value": value})
    job.socket.press({"type": "button"})
    assert job.acknowledgements.read() == ()
    assert "Slack reports a button that no message of this version has" in caplog.text


def test_a_webhook_has_no_buttons() -> None:
    with pytest.raises(ValidationError, match="app_token needs a token and a channel"):
        local_slack(
            Path("ca.pem"), webhook_url=Secret(text="https://hooks.example.com/x"), app_token=Secret(text="xapp-1")
        )
