"""What the Slack sink sends, drawn as Slack shows it: from its own blocks, without Slack."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.slack.blocks import SlackDocument, slack_document
from rules.alert import Alert, AlertState
from rules.evaluate import resolved_text, thresholds_for
from rules.facts.quorum import Facts
from rules.finding import CLEAR
from rules.formatting import resolved_summary
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.notification import Notification, NotifyReason
from tests.situation.case import alerts_of
from tests.situation.commands import situation

LINKS = MessageLinks(docs_url="https://docs.example.com", page_url="https://kraftwatch.example.com")
_EMOJI = {
    "red_circle": '<i style="background: #dd2e44"></i>',
    "large_yellow_circle": '<i style="background: #fdcb58"></i>',
    "large_blue_circle": '<i style="background: #55acee"></i>',
    "white_check_mark": '<i class="check">✓</i>',
    "eyes": '<i class="eyes"></i><i class="eyes"></i>',
}
_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d1c1d; --soft: #616061; --line: #ddd; --link: #1264a3;
  --code-ground: #f8f8f8; --code: #c01343; --badge: #ececec; --button: #fff; --edge: #bbbabb; }
@media (prefers-color-scheme: dark) { :root { --ground: #1a1d21; --ink: #d1d2d3; --soft: #ababad; --line: #3a3d41;
  --link: #1d9bd1; --code-ground: #222529; --code: #e8912d; --badge: #35373b; --button: #1a1d21; --edge: #797c81; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 20px 24px 2px; background: var(--ground); color: var(--ink);
  font: 15px/1.46 Lato, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
.message { display: grid; grid-template-columns: 36px minmax(0, 1fr); gap: 0 8px; margin-bottom: 20px; }
.face { width: 36px; height: 36px; border-radius: 8px; background: #17555b; color: #fff; display: grid;
  place-items: center; font-weight: 700; }
.who span, .context, .thread { color: var(--soft); font-size: 12.5px; }
.who .app { background: var(--badge); border-radius: 3px; padding: 0 3px; font-size: 10px; margin: 0 6px; }
.text, .section { white-space: pre-wrap; overflow-wrap: anywhere; }
.bar { border-left: 4px solid; border-radius: 4px; padding-left: 12px; margin-top: 6px; max-width: 700px; }
.context { display: flex; flex-wrap: wrap; gap: 0 10px; overflow-wrap: anywhere; }
.context > span { min-width: 0; }
.section { margin: 6px 0; }
pre, code { background: var(--code-ground); border: 1px solid var(--line); font-size: 12px; }
pre { border-radius: 4px; padding: 8px; margin: 4px 0; white-space: pre-wrap; line-height: 1.5; }
code { border-radius: 3px; padding: 1px 3px; color: var(--code); }
a { color: var(--link); text-decoration: none; }
.actions { display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0 4px; }
.actions span { border: 1px solid var(--edge); border-radius: 6px; background: var(--button); padding: 4px 12px;
  font-size: 13px; font-weight: 700; }
i { display: inline-block; width: 15px; height: 15px; border-radius: 50%; vertical-align: -2px; }
i.check { border-radius: 3px; background: #2eb67d; color: #fff; font: bold 12px/15px sans-serif; text-align: center; }
i.eyes { width: 8px; background: radial-gradient(circle at 40% 60%, #222 0 2.5px, #fff 3px); border: 1px solid #888; }
.thread { border-left: 2px solid var(--line); padding-left: 8px; margin-top: 6px; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackExample:
    """A message as it is now, and the newest reply in its thread."""

    document: SlackDocument
    edited: bool
    """The message was posted before, in another state."""


def examples() -> Sequence[SlackExample]:
    """Returns a critical and a warning message, an acknowledged one and a resolved one."""
    (critical,) = alerts_of(situation("silent 31s"))
    (warning,) = alerts_of(situation("broker 101 dirs a", "partitions orders 0-7 replicas 101 dirs b"))
    (taken,) = alerts_of(situation("registers 2 incarnation other", "append unregister-controller 2 since 1h"))
    stuck = next(one for one in alerts_of(situation("fence 101", "unclean orders 0,3")) if "stuck" in one.rule)
    acknowledgement = Acknowledgement(
        fingerprint=taken.fingerprint,
        started_at_ms=taken.started_at_ms,
        severity=taken.severity,
        by="ana",
        at_ms=Millis(taken.observed_at_ms + 60_000),
    )
    return [
        _example(NotifyReason.FIRING, critical),
        _example(NotifyReason.FIRING, warning),
        _example(NotifyReason.ACKNOWLEDGED, taken, acknowledgement),
        _example(NotifyReason.RESOLVED, _resolved(stuck, after_ms=840_000)),
    ]


def _example(reason: NotifyReason, alert: Alert, *acknowledgements: Acknowledgement) -> SlackExample:
    new = () if acknowledgements else (alert,)
    notification = Notification(
        incident="a" * 16, reason=reason, alerts=(alert,), new_transitions=new, acknowledgements=acknowledgements
    )
    document = slack_document(notification, LINKS, with_buttons=True)
    return SlackExample(document=document, edited=reason is not NotifyReason.FIRING)


def _resolved(alert: Alert, *, after_ms: int) -> Alert:
    """Returns the transition with the text that the lifecycle gives it in a healthy quorum."""
    over_at_ms = Millis(alert.observed_at_ms + after_ms)
    return replace(
        alert,
        state=AlertState.RESOLVED,
        summary=resolved_summary(resolved_text(alert.rule, alert.about, Facts(situation())), over_at_ms),
        observed_at_ms=Millis(over_at_ms + thresholds_for({})[alert.rule].ms(CLEAR)),
    )


def to_html(messages: Sequence[SlackExample]) -> str:
    """Returns the channel as an HTML document."""
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return f"{head}<title>Slack</title><style>{_STYLE}</style><body>{''.join(map(_message, messages))}"


def _message(one: SlackExample) -> str:
    (attachment,) = one.document.message["attachments"]
    blocks = "".join(map(_block, attachment["blocks"]))
    edited = ' <span class="context" style="display: inline">(edited)</span>' if one.edited else ""
    thread = f'<div class="thread">1 reply: {_mrkdwn(one.document.reply["text"])}</div>' if one.edited else ""
    return (
        '<div class="message"><div class="face">k</div>'
        '<div><div class="who"><b>kraftwatch</b><span class="app">APP</span><span>14:14</span></div>'
        f'<div class="text">{_mrkdwn(one.document.message["text"])}{edited}</div>'
        f'<div class="bar" style="border-color: {attachment["color"]}">{blocks}</div>{thread}</div></div>'
    )


def _block(block: dict[str, Any]) -> str:
    match block:
        case {"type": "section", "text": {"text": str(text)}}:
            return f'<div class="section">{_mrkdwn(text)}</div>'
        case {"type": "context", "elements": list(elements)}:
            inner = "".join(f"<span>{_mrkdwn(each['text'])}</span>" for each in elements)
            return f'<div class="context">{inner}</div>'
        case {"type": "actions", "elements": list(elements)}:
            inner = "".join(f"<span>{html.escape(each['text']['text'])}</span>" for each in elements)
            return f'<div class="actions">{inner}</div>'
        case _:
            raise AssertionError(f"no drawing of this block: {block}")


def _mrkdwn(text: str) -> str:
    """Returns Slack's markup, in which `&`, `<` and `>` are escaped as in HTML, as HTML; code keeps its text."""
    parts = text.split("```")
    return "".join(f"<pre>{part}</pre>" if at % 2 else _inline(part.strip("\n")) for at, part in enumerate(parts))


def _inline(text: str) -> str:
    text = re.sub(r"<!date\^\d+\^[^|]*\|([^>]*)>", lambda found: found[1][:19].replace("T", " "), text)
    text = re.sub(r"<(https?://[^|>]*)\|([^>]*)>", r'<a href="\1">\2</a>', text)
    text = re.sub(r"(?<![\w/]):([a-z_]+):", lambda found: _EMOJI[found[1]], text)
    text = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", text)
    return re.sub(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])", r"<b>\1</b>", text)
