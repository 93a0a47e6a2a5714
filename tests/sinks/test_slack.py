"""Slack is told as its own client tells it, by a server that takes only what is documented."""

import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.secret import Secret
from connectors.sinks.links import Links
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_config import SlackBot, SlackWebhook, Wanted
from connectors.sinks.sink_factory import open_sink
from connectors.sinks.slack_blocks import escaped, message
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice, NotifyReason
from tests.sinks.server import Answer, Reset, Server, serving
from tests.sinks.slack_double import CHANNEL, Slack, check, said
from tests.unit.connectors.kafka.certificates import Authority, authority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

TOKEN = "xoxb-0123456789abcdef"
LINKS = Links(docs_url="https://docs.example.com", page_url="https://watch.example.com/")
RED, YELLOW, GREEN = "#d72b3f", "#e8a723", "#2eb67d"


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def server(trusted: Authority) -> Iterator[Server]:
    context: ssl.SSLContext = trusted.server(trusted.issue("server"))
    with serving(context) as server:
        yield server


class Workspace:
    """A Slack, and the sink that tells it; `restarted` is the same job after a restart."""

    def __init__(self, server: Server, trusted: Authority, memory: Path) -> None:
        self.server = server
        self.slack = Slack(token=TOKEN, lenient=True)
        self.server.behave = self.slack.answer
        self._ca_file = Path(trusted.file)
        self._memory = memory
        self.token = TOKEN
        self.sink = self.restarted()

    def restarted(self) -> Sink:
        place = SlackBot(
            channel="#kafka",
            token=Secret(text=self.token),
            api_url=f"{self.server.url}/api/",
            ca_file=self._ca_file,
        )
        self.sink = open_sink(Wanted(place=place, links=LINKS), memory=self._memory)
        return self.sink

    def tell(self, notice: Notice) -> Outcome:
        (outcome,) = self.sink.tell([notice], sent_at_ms=NOON_MS, deadline_s=30)
        return outcome


@pytest.fixture
def workspace(server: Server, trusted: Authority, tmp_path: Path) -> Workspace:
    return Workspace(server, trusted, tmp_path)


FIRING = alert("quorum", severity=Severity.WARNING)
BEGUN = Notice(incident="1n", reason=NotifyReason.FIRING, alerts=(FIRING,), news=(FIRING,), known=False)
WORSE = replace(
    BEGUN,
    reason=NotifyReason.CHANGED,
    alerts=(replace(FIRING, severity=Severity.CRITICAL),),
    news=(replace(FIRING, severity=Severity.CRITICAL, observed_at_ms=Millis(NOON_MS + 60_000)),),
    known=True,
)
OVER = alert("quorum", resolved=True, observed_at_ms=Millis(NOON_MS + 120_000))
ENDED = Notice(incident="1n", reason=NotifyReason.RESOLVED, alerts=(OVER,), news=(OVER,))
STANDS = Notice(incident="1n", reason=NotifyReason.REPEATED, alerts=(FIRING,), news=())


def test_an_incident_is_one_message_that_is_edited_and_its_thread(workspace: Workspace) -> None:
    for notice in (BEGUN, WORSE, ENDED):
        assert workspace.tell(notice) == Delivered()
    (shown,) = workspace.slack.shown
    assert (shown.color, shown.edits) == (GREEN, 2)
    assert shown.body["text"].startswith(":white_check_mark: *RESOLVED* alpha: Nobody leads.")
    replies = [(each.body["text"], each.body["reply_broadcast"]) for each in workspace.slack.replies]
    assert replies == [
        # An edit notifies nobody: what got worse is shown in the channel as well.
        (":red_circle: `no-leader` quorum: Nobody leads.", True),
        (":white_check_mark: Resolved after 2 min.", False),
    ]
    assert {each.thread_ts for each in workspace.slack.replies} == {shown.ts}
    assert workspace.slack.invalid == []


def test_what_a_message_shows(workspace: Workspace) -> None:
    other = alert("voter 3", rule="voter-lagging", severity=Severity.WARNING, summary="Voter 3 lags by 1200 records.")
    root = alert("quorum")
    workspace.tell(replace(BEGUN, alerts=(root, other), news=(root, other)))
    (shown,) = workspace.slack.shown
    assert (shown.body["text"], shown.color) == (":red_circle: *CRITICAL* alpha: Nobody leads.", RED)
    context, remedy, evidence, others = shown.blocks
    origin, docs, page = (each["text"] for each in context["elements"])
    since = "<!date^1795150862^{date_short_pretty} {time_secs}|2026-11-20T05:01:02.345Z>"
    assert origin == f"`no-leader` · quorum · since {since}"
    assert docs == "<https://docs.example.com/rules/no-leader/|What it means>"
    assert page == "<https://watch.example.com/clusters/alpha|The cluster now>"
    assert evidence["text"]["text"] == "```leader_epoch  7\nasked         c1:9093, c2:9093```"
    command = "```bin/kafka-server-start.sh $NODE_PROPERTIES```"
    assert remedy["text"]["text"] == f"*What to do*\n1. Start a controller.\n2. Run\n{command}"
    assert others["text"]["text"] == (
        "*With it*\n:large_yellow_circle: `voter-lagging` voter 3: Voter 3 lags by 1200 records."
    )


def test_of_a_storm_each_line_says_its_cluster(workspace: Workspace) -> None:
    root, other = alert("quorum"), alert("quorum", cluster="beta", cluster_id="b")
    workspace.tell(replace(BEGUN, alerts=(root, other), news=(root, other)))
    (shown,) = workspace.slack.shown
    assert shown.blocks[-1]["text"]["text"] == "*With it*\n:red_circle: beta `no-leader` quorum: Nobody leads."


def test_the_message_is_found_again_after_a_restart(workspace: Workspace) -> None:
    workspace.tell(BEGUN)
    workspace.restarted()
    workspace.tell(ENDED)
    assert [(each.color, each.edits) for each in workspace.slack.shown] == [(GREEN, 1)]


def test_told_twice_changes_nothing(workspace: Workspace) -> None:
    for notice in (BEGUN, BEGUN, WORSE, WORSE, ENDED, ENDED):
        workspace.restarted()
        assert workspace.tell(notice) == Delivered()
    assert (len(workspace.slack.shown), len(workspace.slack.replies)) == (1, 2)


def test_what_stands_is_said_in_the_thread_and_seen_in_the_channel(workspace: Workspace) -> None:
    for notice in (BEGUN, STANDS, STANDS):
        workspace.tell(notice)
    # After each repeat interval: an edit alone would notify nobody.
    for reply in workspace.slack.replies:
        assert reply.body["text"] == ":large_yellow_circle: Still warning: Nobody leads."
        assert reply.body["reply_broadcast"] is True
    assert len(workspace.slack.replies) == 2


def test_a_message_that_was_deleted_is_posted_anew(workspace: Workspace) -> None:
    workspace.tell(BEGUN)
    workspace.slack.messages.clear()
    workspace.tell(WORSE)
    workspace.tell(ENDED)
    assert [each.color for each in workspace.slack.shown] == [GREEN]


def test_what_came_and_went_while_slack_was_away_is_one_green_message(workspace: Workspace) -> None:
    over = replace(ENDED, alerts=(OVER,), news=(FIRING, OVER), known=False)
    workspace.tell(over)
    (shown,) = workspace.slack.shown
    assert shown.color == GREEN
    assert shown.blocks[0]["elements"][0]["text"].endswith(
        "stood for 2 min · came and went while Slack could not be told"
    )
    assert workspace.slack.replies == []


def test_a_reply_that_fails_is_tried_again_and_nothing_is_posted_twice(workspace: Workspace) -> None:
    workspace.tell(BEGUN)
    workspace.slack.refusing["chat.postMessage"] = "fatal_error"
    assert workspace.tell(WORSE) == Retry(reason="Slack refuses: fatal error")
    workspace.slack.refusing.clear()
    assert workspace.tell(WORSE) == Delivered()
    assert (len(workspace.slack.shown), len(workspace.slack.replies)) == (1, 1)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("not_in_channel", "Slack refuses: the app is not in the channel: invite it there"),
        ("invalid_auth", "Slack refuses: the token is not accepted"),
        ("is_archived", "Slack refuses: the channel is archived"),
        ("missing_scope", "Slack refuses: the token lacks the scope chat:write"),
    ],
)
def test_what_somebody_can_mend_is_tried_again_and_says_what(workspace: Workspace, code: str, reason: str) -> None:
    workspace.slack.refusing["chat.postMessage"] = code
    assert workspace.tell(BEGUN) == Retry(reason=reason)


def test_blocks_that_slack_takes_for_wrong_are_told_as_plain_text(workspace: Workspace) -> None:
    def no_blocks(body: dict[str, Any]) -> Answer:
        return (
            said({"ok": False, "error": "invalid_blocks"}) if "attachments" in body else workspace.slack._posted(body)
        )

    workspace.server.behave = lambda request: no_blocks(json.loads(request.body))
    assert workspace.tell(BEGUN) == Delivered()
    (shown,) = workspace.slack.shown
    headline, _origin, *links = shown.body["text"].splitlines()
    assert headline == ":large_yellow_circle: *WARNING* alpha: Nobody leads."
    assert len(links) == 2
    workspace.server.behave = lambda _: said({"ok": False, "error": "msg_too_long"})
    other = replace(BEGUN, incident="0ther")
    assert workspace.tell(other) == Rejected(reason="Slack refuses the message: msg too long")


def test_a_rate_limit_says_when_to_come_back(workspace: Workspace) -> None:
    limited = Answer(status=429, headers={"Retry-After": "30"}, body=b'{"ok":false,"error":"ratelimited"}')
    workspace.server.behave = lambda _: limited
    outcome = workspace.tell(BEGUN)
    assert isinstance(outcome, Retry)
    assert outcome.after_s == 30


def test_a_memory_that_cannot_be_kept_does_not_tell_anything_again(
    server: Server, trusted: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    workspace = Workspace(server, trusted, blocked / "memory")
    assert workspace.tell(BEGUN) == Delivered()
    assert workspace.tell(ENDED) == Delivered()
    assert [each.color for each in workspace.slack.shown] == [GREEN]
    assert caplog.text.count("a restart posts anew") == 1


def test_a_memory_that_is_damaged_costs_one_more_message(workspace: Workspace, tmp_path: Path) -> None:
    workspace.tell(BEGUN)
    (memory,) = tmp_path.glob("sink-slack-kafka-*.json")
    memory.write_text('{"version": 1, "messages": {"1n": {"chan')
    workspace.restarted()
    workspace.tell(WORSE)
    assert len(workspace.slack.shown) == 2


def test_a_lost_answer_is_told_again(workspace: Workspace) -> None:
    workspace.server.behave = lambda _: Reset()
    assert isinstance(workspace.tell(BEGUN), Retry)
    workspace.server.behave = workspace.slack.answer
    assert workspace.tell(BEGUN) == Delivered()


def test_nothing_that_a_cluster_says_is_a_mention_a_link_or_the_end_of_a_code_block() -> None:
    hostile = "<!channel> <@U1> & </> ``` @here *b* \u202e\x1b"
    told = alert(hostile, cluster=hostile, summary=hostile, evidence={hostile: hostile}, remedy=(hostile,))
    shown = message(replace(BEGUN, alerts=(told, told)), Links())
    texts = [shown.text, *(each["text"]["text"] for each in shown.blocks if each["type"] == "section")]
    texts += [each["text"] for each in shown.blocks[0]["elements"]]
    for text in texts:
        assert "<!channel>" not in text
        assert "<@" not in text
        assert "\u202e" not in text
        assert text.count("```") % 2 == 0
    check("webhook", shown.body())


@pytest.mark.parametrize("limit", range(1, 30))
def test_a_cut_never_splits_an_escaped_character(limit: int) -> None:
    cut = escaped("a<&>" * 10, limit)
    assert len(cut) <= limit
    assert cut.rstrip("…").replace("&lt;", "").replace("&gt;", "").replace("&amp;", "").replace("a", "") == ""


def test_a_command_is_whole_or_not_there() -> None:
    long, short = "kafka-acls.sh " + "x" * 4_000, "kafka-topics.sh --list"
    told = alert(remedy=(long, short) * 8)
    shown = message(replace(BEGUN, alerts=(told,)), Links())
    text = "".join(each["text"]["text"] for each in shown.blocks if each["type"] == "section")
    assert "xxx" not in text
    assert "A command too long for Slack: `kraftwatch check` tells it." in text
    assert f"```{short}```" in text
    assert "… and 4 more steps: `kraftwatch check` tells them all." in text


def test_an_incoming_webhook_posts_each_notice(server: Server, trusted: Authority, tmp_path: Path) -> None:
    place = SlackWebhook(url=Secret(text=f"{server.url}/services/T0/B0/x"), ca_file=Path(trusted.file))
    sink = open_sink(Wanted(place=place), memory=tmp_path)
    assert sink.terms.name == "slack"
    assert sink.tell([BEGUN, ENDED], sent_at_ms=NOON_MS, deadline_s=30) == [Delivered(), Delivered()]
    bodies = [json.loads(request.body) for request in server.requests]
    assert [body["attachments"][0]["color"] for body in bodies] == [YELLOW, GREEN]
    for body in bodies:
        check("webhook", body)
    refusals = iter([Answer(status=400, body=b"invalid_blocks"), Answer(body=b"ok")])
    server.behave = lambda _: next(refusals)
    assert sink.tell([BEGUN], sent_at_ms=NOON_MS, deadline_s=30) == [Delivered()]
    assert "attachments" not in json.loads(server.requests[-1].body)


def test_the_channel_that_slack_names_is_the_one_that_is_edited(workspace: Workspace) -> None:
    workspace.tell(BEGUN)
    workspace.tell(WORSE)
    assert [json.loads(request.body)["channel"] for request in workspace.server.requests] == [
        "#kafka",
        CHANNEL,
        CHANNEL,
    ]
