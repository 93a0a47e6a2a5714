"""Generates the picture of Slack in docs/alerts.md: `python -m tests.slack_picture`.

The sink posts to a double of Slack; its messages are rendered as HTML, block by block, and Debian's Chromium takes a
screenshot.
"""

import html
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import SecretStr

from connectors.sinks.sink_config import MessageLinks, SinkSpec, open_sink
from rules.alert import Alert, AlertState
from rules.evaluate import thresholds_for
from rules.finding import CLEAR
from rules.formatting import resolved_summary
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.notifications.notification import Notification, NotifyReason
from rules.resolved_texts import resolved_text
from tests.browser.chromium import Browser, chromium
from tests.sinks.server import serving
from tests.sinks.sink_kind import local_slack
from tests.sinks.slack_double import ChannelMessage, SlackDouble
from tests.unit.connectors.kafka.certificates import authority
from tests.unit.rules.situation import healthy
from tests.unit.rules.test_goldens import the_alert

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "slack.webp"
LINKS = MessageLinks(docs_url="https://docs.example.com", page_url="https://kraftwatch.example.com")
_EMOJI = {
    "red_circle": '<i style="background: #dd2e44"></i>',
    "large_yellow_circle": '<i style="background: #fdcb58"></i>',
    "large_blue_circle": '<i style="background: #55acee"></i>',
    "white_check_mark": '<i class="check">✓</i>',
}
_STYLE = """
body { margin: 0; padding: 20px 24px; width: 820px; background: #fff; color: #1d1c1d;
       font: 15px/1.46 Lato, "Helvetica Neue", Arial, "DejaVu Sans", "Noto Color Emoji", sans-serif; }
.message { display: grid; grid-template-columns: 44px 1fr; gap: 0 10px; margin-bottom: 18px; }
.face { grid-row: span 2; width: 38px; height: 38px; border-radius: 8px; background: #17555b; color: #fff;
        display: grid; place-items: center; font-weight: 700; }
.who b { margin-right: 6px; } .who span { color: #616061; font-size: 12px; }
.app { background: #ececec; border-radius: 3px; padding: 0 3px; font-size: 10px !important; margin-right: 6px; }
.bar { border-left: 4px solid; border-radius: 4px; padding: 2px 0 2px 12px; margin-top: 6px; }
.context { color: #616061; font-size: 12.5px; } .context > span { margin-right: 10px; }
.section { margin: 6px 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { background: #f8f8f8; border: 1px solid #ddd; border-radius: 4px; padding: 8px; margin: 4px 0; font-size: 12px;
      white-space: pre-wrap; line-height: 1.5; }
code { background: #f8f8f8; border: 1px solid #ddd; border-radius: 3px; padding: 1px 3px; color: #c01343;
       font-size: 12.5px; }
a { color: #1264a3; text-decoration: none; }
i { display: inline-block; width: 15px; height: 15px; border-radius: 50%; vertical-align: -2px; }
i.check { border-radius: 3px; background: #2eb67d; color: #fff; font: bold 12px/15px sans-serif; text-align: center; }
.thread { margin: -8px 0 22px 54px; padding-left: 12px; border-left: 2px solid #ddd; font-size: 14px;
          white-space: pre-wrap; }
"""


def example_messages() -> Sequence[ChannelMessage]:
    """Returns the messages of an incident that gets worse and of one that resolves."""
    tolerance, worse = the_alert("failure-tolerance.warning"), the_alert("failure-tolerance.critical")
    stuck = the_alert("partition-stuck-recovering.warning")
    resolved = _resolved(stuck, healthy(), after_ms=840_000)
    notifications = [
        _notification("a" * 16, NotifyReason.FIRING, (stuck,), (stuck,)),
        _notification("a" * 16, NotifyReason.RESOLVED, (resolved,), (resolved,)),
        _notification("b" * 16, NotifyReason.FIRING, (tolerance,), (tolerance,)),
        replace(_notification("b" * 16, NotifyReason.CHANGED, (worse,), (worse,)), worse=True),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trusted = authority(folder / "ca")
        with serving(trusted.server(trusted.issue("server"))) as server:
            slack = SlackDouble()
            server.behave = slack.reply
            config = local_slack(
                Path(trusted.file), channel="#kafka", token=SecretStr("xoxb-1"), api_url=f"{server.url}/api/"
            )
            sink = open_sink(SinkSpec(section=config, links=LINKS), store=folder)
            sink.send(notifications, sent_at_ms=worse.observed_at_ms, deadline_s=30)
    assert slack.invalid == []
    return slack.messages


def to_html(messages: Sequence[ChannelMessage]) -> str:
    """Returns the channel as HTML."""
    parts = []
    for message in messages:
        if message.thread_ts is not None:
            continue
        replies = "".join(
            f'<div class="thread">{_mrkdwn(reply.body["text"])}</div>'
            for reply in messages
            if reply.thread_ts == message.ts
        )
        blocks = "".join(_block(block) for block in message.blocks)
        edited = ' <span class="context">(edited)</span>' if message.edits else ""
        parts.append(
            f'<div class="message"><div class="face">k</div>'
            f'<div class="who"><b>kraftwatch</b><span class="app">APP</span><span>10:04</span></div>'
            f"<div>{_mrkdwn(message.body['text'])}{edited}"
            f'<div class="bar" style="border-color: {message.color}">{blocks}</div></div></div>{replies}'
        )
    return f'<!doctype html><meta charset="utf-8"><style>{_STYLE}</style><body>{"".join(parts)}'


def _notification(
    incident: str, reason: NotifyReason, alerts: tuple[Alert, ...], new: tuple[Alert, ...]
) -> Notification:
    return Notification(incident=incident, reason=reason, alerts=alerts, new_transitions=new)


def _resolved(alert: Alert, quorum: Quorum, *, after_ms: int) -> Alert:
    """Returns the transition with the text that the lifecycle gives it while the quorum is like this."""
    over_at_ms = Millis(alert.observed_at_ms + after_ms)
    return replace(
        alert,
        state=AlertState.RESOLVED,
        summary=resolved_summary(resolved_text(alert.rule, alert.subject, quorum), over_at_ms),
        observed_at_ms=Millis(over_at_ms + round(thresholds_for({})[alert.rule][CLEAR] * 1000)),
    )


def _block(block: dict[str, object]) -> str:
    match block:
        case {"type": "section", "text": {"text": str(text)}}:
            return f'<div class="section">{_mrkdwn(text)}</div>'
        case {"type": "context", "elements": list(elements)}:
            inner = "".join(f"<span>{_mrkdwn(each['text'])}</span>" for each in elements)
            return f'<div class="context">{inner}</div>'
        case _:
            raise AssertionError(f"no rendering for this block: {block}")


def _mrkdwn(text: str) -> str:
    """Returns Slack's markup as HTML; code blocks keep their text."""
    fenced = re.split(r"```(.*?)```", text, flags=re.DOTALL)
    return "".join(
        f"<pre>{html.escape(html.unescape(part))}</pre>" if at % 2 else _inline(part.strip("\n"))
        for at, part in enumerate(fenced)
    )


def _inline(text: str) -> str:
    text = re.sub(r"<!date\^\d+\^[^|]*\|([^>]*)>", lambda found: found[1][:19].replace("T", " "), text)
    text = re.sub(r"<(https?://[^|>]*)\|([^>]*)>", r'<a href="\1">\2</a>', text)
    text = re.sub(r":([a-z_]+):", lambda found: _EMOJI.get(found[1], found[0]), text)
    text = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", text)
    return re.sub(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])", r"<b>\1</b>", text)


def take_screenshot(browser: Browser, folder: Path) -> None:
    """Writes the picture to the documentation."""
    page = folder / "slack.html"
    page.write_text(to_html(example_messages()), encoding="utf-8")
    browser.open(page.as_uri(), size=(880, 900))
    browser.screenshot(PICTURE)


def main() -> None:
    """Generates the picture."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with chromium(folder / "profile") as browser:
            take_screenshot(browser, folder)


if __name__ == "__main__":
    main()
