"""The Slack sinks, against a double that accepts only documented calls."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.settings.secret import Secret
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.slack.blocks import escaped, message, slack_document
from connectors.store.store_place import StorePlace
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.notification import EndedSilence, Notification, NotifyReason
from tests.sinks import slack_double
from tests.sinks.server import HttpDouble, HttpReply, ReceivedRequest
from tests.sinks.sink_kind import SECRET, SinkKind, local_slack
from tests.sinks.slack_double import CHANNEL, SlackDouble, check, json_reply
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KINDS = [
    SinkKind(
        kind="slack",
        section=lambda url, ca_file: local_slack(
            ca_file, channel="#kafka", token=Secret(text=SECRET), api_url=f"{url}/api/"
        ),
        reply=slack_double.SlackDouble(token=SECRET).reply,
    ),
    SinkKind(
        kind="slack webhook",
        section=lambda url, ca_file: local_slack(ca_file, webhook_url=Secret(text=f"{url}/services/T0/B0/{SECRET}")),
        reply=slack_double.webhook,
    ),
]

TOKEN = "xoxb-0123456789abcdef"
LINKS = MessageLinks(docs_url="https://docs.example.com", page_url="https://watch.example.com/")
RED, YELLOW, GREEN = "#d72b3f", "#e8a723", "#2eb67d"


class SlackWorkspace:
    """A double of Slack and the sink that posts to it; `restarted` opens the sink again, as after a restart."""

    def __init__(self, server: HttpDouble, trusted: CertificateAuthority, store: StorePlace) -> None:
        self.server = server
        self.slack = SlackDouble(token=TOKEN, lenient=True)
        self.server.behave = self.slack.reply
        self._ca_file = Path(trusted.file)
        self._store = store
        self.token = TOKEN
        self.sink = self.restarted()

    def restarted(self) -> Sink:
        config = local_slack(
            self._ca_file, channel="#kafka", token=Secret(text=self.token), api_url=f"{self.server.url}/api/"
        )
        self.sink = config.open(LINKS, self._store)
        return self.sink

    def send(self, notification: Notification) -> Outcome:
        (outcome,) = self.sink.send([notification], sent_at_ms=NOON_MS, deadline_s=30)
        return outcome


@pytest.fixture
def workspace(server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path) -> SlackWorkspace:
    return SlackWorkspace(server, trusted, tmp_path)


FIRING = alert("quorum", severity=Severity.WARNING)
STARTED = Notification(
    incident="1n", reason=NotifyReason.FIRING, alerts=(FIRING,), new_transitions=(FIRING,), previously_notified=False
)
WORSE = replace(
    STARTED,
    reason=NotifyReason.CHANGED,
    alerts=(replace(FIRING, severity=Severity.CRITICAL),),
    new_transitions=(replace(FIRING, severity=Severity.CRITICAL, observed_at_ms=Millis(NOON_MS + 60_000)),),
    previously_notified=True,
    worse=True,
)
RESOLVED = alert("quorum", resolved=True, observed_at_ms=Millis(NOON_MS + 120_000))
ENDED = Notification(incident="1n", reason=NotifyReason.RESOLVED, alerts=(RESOLVED,), new_transitions=(RESOLVED,))
REPEATED = Notification(incident="1n", reason=NotifyReason.REPEATED, alerts=(FIRING,), new_transitions=())


def test_an_incident_is_one_message_that_is_edited_with_a_thread(workspace: SlackWorkspace) -> None:
    for notification in (STARTED, WORSE, ENDED):
        assert workspace.send(notification) == Delivered()
    (posted,) = workspace.slack.channel_messages
    assert (posted.color, posted.edits) == (GREEN, 2)
    assert posted.body["text"].startswith(":white_check_mark: *RESOLVED* alpha: No leader elected.")
    replies = [(each.body["text"], each.body["reply_broadcast"]) for each in workspace.slack.replies]
    assert replies == [
        # Slack sends no notification for an edit: a worse severity is also shown in the channel.
        (":red_circle: `no-leader` quorum: No leader elected.", True),
        (":white_check_mark: Resolved. The incident was open for 2 min.", False),
    ]
    assert {each.thread_ts for each in workspace.slack.replies} == {posted.ts}
    channels = [json.loads(request.body)["channel"] for request in workspace.server.requests]
    assert channels == ["#kafka", *[CHANNEL] * 4], "edited in the channel id that Slack returned"
    assert workspace.slack.invalid == []


def test_the_end_of_a_silence_is_a_reply_that_the_channel_shows(workspace: SlackWorkspace) -> None:
    ended = EndedSilence(by="Ana <!channel>", at_ms=NOON_MS)
    unsilenced = replace(REPEATED, reason=NotifyReason.UNSILENCED, ended_silence=ended)
    worse = replace(WORSE, ended_silence=ended)
    for notification in (STARTED, unsilenced, unsilenced, worse):
        assert workspace.send(notification) == Delivered()
    first, second = [each.body for each in workspace.slack.replies]
    assert first["reply_broadcast"] is True
    silence, still = first["text"].split("\n")
    assert silence.startswith(":bell: The silence by Ana &lt;!channel&gt; ended <!date^")
    assert still == ":large_yellow_circle: Still warning: No leader elected."
    assert second["text"] == f"{silence}\n:red_circle: `no-leader` quorum: No leader elected."
    assert unsilenced.id != replace(unsilenced, ended_silence=replace(ended, at_ms=Millis(NOON_MS + 1))).id
    assert workspace.slack.invalid == []
    assert workspace.sink.options.shows_ended_silences


def test_the_content_of_a_message(workspace: SlackWorkspace) -> None:
    other = alert("voter 3", rule="voter-lagging", severity=Severity.WARNING, summary="Voter 3 lags by 1200 records.")
    root = alert("quorum")
    workspace.send(replace(STARTED, alerts=(root, other), new_transitions=(root, other)))
    (posted,) = workspace.slack.channel_messages
    assert (posted.body["text"], posted.color) == (":red_circle: *CRITICAL* alpha: No leader elected.", RED)
    context, remedy, evidence, others = posted.blocks
    origin, docs, page = (each["text"] for each in context["elements"])
    since = "<!date^1795150862^{date_short_pretty} {time_secs}|2026-11-20T05:01:02.345Z>"
    assert origin == f"`no-leader` · quorum · first observed {since}"
    assert docs == "<https://docs.example.com/rules/no-leader/|What it means>"
    assert page == "<https://watch.example.com/clusters/alpha|Cluster status>"
    assert evidence["text"]["text"] == "```leader_epoch  7\nasked         c1:9093, c2:9093```"
    command = "```bin/kafka-server-start.sh $NODE_PROPERTIES```"
    assert remedy["text"]["text"] == f"*What to do*\n1. Start a controller.\n2. Run\n{command}"
    assert others["text"]["text"] == (
        "*Also in this incident*\n:large_yellow_circle: `voter-lagging` voter 3: Voter 3 lags by 1200 records."
    )


def test_lines_of_a_storm_incident_name_their_cluster(workspace: SlackWorkspace) -> None:
    root, other = alert("quorum"), alert("quorum", cluster="beta", cluster_id="b")
    workspace.send(replace(STARTED, alerts=(root, other), new_transitions=(root, other)))
    (posted,) = workspace.slack.channel_messages
    assert (
        posted.blocks[-1]["text"]["text"]
        == "*Also in this incident*\n:red_circle: beta `no-leader` quorum: No leader elected."
    )


def test_a_repeated_notification_changes_nothing(workspace: SlackWorkspace) -> None:
    for notification in (STARTED, STARTED, WORSE, WORSE, ENDED, ENDED):
        workspace.restarted()
        assert workspace.send(notification) == Delivered()
    assert (len(workspace.slack.channel_messages), len(workspace.slack.replies)) == (1, 2)


def test_a_repetition_is_a_reply_that_is_shown_in_the_channel(workspace: SlackWorkspace) -> None:
    again = replace(REPEATED, repeats_ms=Millis(NOON_MS + 1))
    for notification in (STARTED, REPEATED, again, again):
        workspace.send(notification)
    # After each repeat interval, and not for one that is sent again: Slack sends no notification for an edit.
    for reply in workspace.slack.replies:
        assert reply.body["text"] == ":large_yellow_circle: Still warning: No leader elected."
        assert reply.body["reply_broadcast"] is True
    assert len(workspace.slack.replies) == 2


def test_a_deleted_message_is_posted_again(workspace: SlackWorkspace) -> None:
    workspace.send(STARTED)
    workspace.slack.messages.clear()
    workspace.send(WORSE)
    workspace.send(ENDED)
    assert [each.color for each in workspace.slack.channel_messages] == [GREEN]


def test_an_incident_that_resolved_while_slack_was_unreachable_is_one_green_message(workspace: SlackWorkspace) -> None:
    resolved = replace(ENDED, alerts=(RESOLVED,), new_transitions=(FIRING, RESOLVED), previously_notified=False)
    workspace.send(resolved)
    (posted,) = workspace.slack.channel_messages
    assert posted.color == GREEN
    assert posted.blocks[0]["elements"][0]["text"].endswith(
        "open for 2 min · fired and resolved before Slack could be notified"
    )
    assert workspace.slack.replies == []


def test_a_failed_reply_is_retried_and_nothing_is_posted_twice(workspace: SlackWorkspace) -> None:
    workspace.send(STARTED)
    workspace.slack.errors["chat.postMessage"] = "fatal_error"
    assert workspace.send(WORSE) == Retry(reason="Slack error: fatal error")
    workspace.slack.errors.clear()
    assert workspace.send(WORSE) == Delivered()
    assert (len(workspace.slack.channel_messages), len(workspace.slack.replies)) == (1, 1)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("not_in_channel", "Slack error: the app is not in the channel: invite it"),
        ("invalid_auth", "Slack error: the token is invalid"),
        ("is_archived", "Slack error: the channel is archived"),
        ("missing_scope", "Slack error: the token lacks the scope chat:write"),
    ],
)
def test_a_fixable_error_is_retried_with_its_reason(workspace: SlackWorkspace, code: str, reason: str) -> None:
    workspace.slack.errors["chat.postMessage"] = code
    assert workspace.send(STARTED) == Retry(reason=reason)


def test_a_message_with_rejected_blocks_is_sent_as_plain_text(workspace: SlackWorkspace) -> None:
    def no_blocks(body: dict[str, Any]) -> HttpReply:
        return (
            json_reply({"ok": False, "error": "invalid_blocks"})
            if "attachments" in body
            else workspace.slack._post(body)
        )

    workspace.server.behave = lambda request: no_blocks(json.loads(request.body))
    assert workspace.send(STARTED) == Delivered()
    (posted,) = workspace.slack.channel_messages
    assert posted.body["text"] == ":large_yellow_circle: *WARNING* alpha: No leader elected."
    workspace.server.behave = lambda _: json_reply({"ok": False, "error": "msg_too_long"})
    other = replace(STARTED, incident="0ther")
    assert workspace.send(other) == Rejected(reason="Slack rejected the message: msg too long")


def test_an_unwritable_message_store_does_not_repeat_messages(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    workspace = SlackWorkspace(server, trusted, blocked / "state")
    assert workspace.send(STARTED) == Delivered()
    assert workspace.send(ENDED) == Delivered()
    assert [each.color for each in workspace.slack.channel_messages] == [GREEN]
    assert caplog.text.count("after a restart, incidents that are firing are posted again") == 1


def test_text_from_a_cluster_is_never_a_mention_a_link_or_the_end_of_a_code_block() -> None:
    hostile = "<!channel> <@U1> & </> ``` @here *b* \u202e\x1b"
    one = alert(hostile, cluster=hostile, summary=hostile, evidence={hostile: hostile}, remedy=(hostile,))
    posted = message(replace(STARTED, alerts=(one, one)), MessageLinks())
    blocks = posted["attachments"][0]["blocks"]
    texts = [posted["text"], *(each["text"]["text"] for each in blocks if each["type"] == "section")]
    texts += [each["text"] for each in blocks[0]["elements"]]
    for text in texts:
        assert "<!channel>" not in text
        assert "<@" not in text
        assert "\u202e" not in text
        assert text.count("```") % 2 == 0
    check("webhook", posted)


@pytest.mark.parametrize("text", ["x" * 5_000, "<&>`" * 1_000, "\u202e" * 1_000], ids=["long", "escaped", "hidden"])
@pytest.mark.parametrize("acknowledged", [0, 30, 60])
def test_the_largest_message_with_buttons_keeps_slacks_limits(text: str, acknowledged: int) -> None:
    fields: dict[str, Any] = {"summary": text, "evidence": {text: text, "more": [text] * 40}, "remedy": (text,) * 40}
    alerts = tuple(alert(f"{number} {text}", cluster=f"c{number}-{'x' * 90}", **fields) for number in range(60))
    people = tuple(
        Acknowledgement(
            fingerprint=one.fingerprint,
            started_at_ms=one.started_at_ms,
            severity=one.severity,
            by=f"{number} {text}",
            at_ms=NOON_MS,
            until_ms=Millis(NOON_MS + number),
        )
        for number, one in enumerate(alerts[:acknowledged])
    )
    largest = replace(STARTED, alerts=alerts, new_transitions=alerts, acknowledgements=people)
    document = slack_document(largest, LINKS, with_buttons=True)
    check("chat.postMessage", {"channel": CHANNEL, **document.message})
    check("chat.postMessage", {"channel": CHANNEL, "thread_ts": "1795150862.000100", **document.reply})
    kinds = [each["type"] for each in document.message["attachments"][0]["blocks"]]
    assert kinds.index("actions") < kinds.index("section"), "Slack folds what is below the first lines"


@pytest.mark.parametrize("limit", range(1, 30))
def test_truncation_never_splits_an_escaped_character(limit: int) -> None:
    truncated = escaped("a<&>" * 10, limit)
    assert len(truncated) <= limit
    assert truncated.rstrip("…").replace("&lt;", "").replace("&gt;", "").replace("&amp;", "").replace("a", "") == ""


def test_a_command_is_complete_or_left_out() -> None:
    long, short = "kafka-acls.sh " + "x" * 4_000, "kafka-topics.sh --list"
    one = alert(remedy=(long, short) * 8)
    posted = message(replace(STARTED, alerts=(one,)), MessageLinks())
    text = "".join(each["text"]["text"] for each in posted["attachments"][0]["blocks"] if each["type"] == "section")
    assert "xxx" not in text
    assert "This command is too long for Slack: `kraftwatch check` prints it." in text
    assert f"```{short}```" in text
    assert "… and 4 more steps: `kraftwatch check` prints all of them." in text


def test_an_incoming_webhook_posts_each_notification(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    config = local_slack(Path(trusted.file), webhook_url=Secret(text=f"{server.url}/services/T0/B0/x"))
    sink = config.open(MessageLinks(), tmp_path)
    assert sink.options.name == "slack"
    server.behave = slack_double.webhook
    assert sink.send([STARTED, ENDED], sent_at_ms=NOON_MS, deadline_s=30) == [Delivered(), Delivered()]
    bodies = [json.loads(request.body) for request in server.requests]
    assert [body["attachments"][0]["color"] for body in bodies] == [YELLOW, GREEN]
    for body in bodies:
        check("webhook", body)
    replies_of_server = iter([HttpReply(status=400, body=b"invalid_blocks"), HttpReply(body=b"ok")])
    server.behave = lambda _: next(replies_of_server)
    assert sink.send([STARTED], sent_at_ms=NOON_MS, deadline_s=30) == [Delivered()]
    assert "attachments" not in json.loads(server.requests[-1].body)


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (410, "channel_is_archived", "Slack error: the channel is archived"),
        (404, "channel_not_found", "Slack error: the channel does not exist, or the app is not in it: invite it"),
        (404, "no_service", "Slack error: the webhook was removed or disabled"),
        (403, "invalid_token", "Slack error: the webhook was removed or disabled"),
        (403, "action_prohibited", "Slack error: an administrator of the workspace has prohibited it"),
        (400, "user_not_found", "Slack error: the user who receives the messages does not exist"),
        (200, "no_active_hooks", "Slack error: the webhook was removed or disabled"),
    ],
)
def test_an_error_of_an_incoming_webhook_is_retried_with_its_reason(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path, status: int, code: str, reason: str
) -> None:
    config = local_slack(Path(trusted.file), webhook_url=Secret(text=f"{server.url}/services/T0/B0/x"))
    server.behave = lambda _: HttpReply(status=status, body=code.encode())
    outcomes = config.open(MessageLinks(), tmp_path).send([STARTED], sent_at_ms=NOON_MS, deadline_s=30)
    assert outcomes == [Retry(reason=reason)]
    assert len(server.requests) == 1


@pytest.mark.parametrize("call", ["message", "edit", "reply"])
def test_a_call_without_the_place_of_its_message_is_not_accepted(workspace: SlackWorkspace, call: str) -> None:
    """As a program answers that only looks like Slack: nothing was posted."""
    workspace.send(STARTED)
    sent = replace(STARTED, incident="0ther") if call == "message" else WORSE

    def reply(request: ReceivedRequest) -> HttpReply:
        found = "edit" if "ts" in (body := json.loads(request.body)) else "reply" if "thread_ts" in body else "message"
        if found != call:
            return workspace.slack.reply(request)
        return json_reply({"ok": True} if call != "edit" else {"ok": True, "channel": CHANNEL, "ts": "1.0"})

    workspace.server.behave = reply
    outcome = workspace.send(sent)
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("HTTP 200, but the answer is not that of Slack: check the URL and the proxy (")
    workspace.server.behave = workspace.slack.reply
    assert workspace.send(sent) == Delivered()
