"""Formats a notification as a Slack message within Slack's limits; text from a cluster is never interpreted.

https://docs.slack.dev/reference/block-kit/blocks: 50 blocks a message, 3000 characters a section, 10 elements a
context. https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are all that must be escaped, and
mentions and links can only be written with `<` if `parse` is `none` and `verbatim` is set.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from connectors.sinks.notification_text import delay_text
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.slack.buttons import Silenced, buttons
from rules.alert import Alert, AlertState
from rules.evidence_text import evidence_lines
from rules.finding import Severity
from rules.formatting import and_join, duration, iso, visible
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason

Block: TypeAlias = dict[str, Any]

_MAX_SECTION = 2_900
"""Characters of a section, with room for what surrounds them."""
_MAX_TEXT = 3_900
"""Characters of a message without blocks: chat.update takes 4,000."""
_MAX_STEPS = 12
_MAX_OTHER_ALERTS = 12
_MAX_PEOPLE = 6
_MAX_LINE = 300
_MAX_EVIDENCE_LINES = 25
_EMOJI = {
    Severity.CRITICAL: ":red_circle:",
    Severity.WARNING: ":large_yellow_circle:",
    Severity.INFO: ":large_blue_circle:",
}
_COLOR = {Severity.CRITICAL: "#d72b3f", Severity.WARNING: "#e8a723", Severity.INFO: "#2f6fd6"}
_RESOLVED_EMOJI, _RESOLVED_COLOR = ":white_check_mark:", "#2eb67d"
_CODE_FENCE = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackDocument:
    """What is sent for one notification: arguments of chat.postMessage."""

    message: dict[str, Any]
    reply: dict[str, Any]
    """The reply in the thread of a message that was posted before."""

    @property
    def headline(self) -> dict[str, Any]:
        """The message without its blocks, for when Slack rejects them."""
        return {name: value for name, value in self.message.items() if name != "attachments"}


def slack_document(notification: Notification, links: MessageLinks, *, with_buttons: bool = False) -> SlackDocument:
    """Returns all texts of a notification."""
    return SlackDocument(message=message(notification, links, with_buttons=with_buttons), reply=reply(notification))


_NO_UNFURL: dict[str, Any] = {"parse": "none", "link_names": False, "unfurl_links": False, "unfurl_media": False}


def message(notification: Notification, links: MessageLinks, *, with_buttons: bool = False) -> dict[str, Any]:
    """Returns the message of an incident in its current state. The color requires an attachment around the blocks."""
    resolved = notification.state is AlertState.RESOLVED
    root = notification.root
    texts = (f"<{escaped(url, _MAX_SECTION)}|{label}>" for url, label in links.of(root))
    blocks = [_context(_origin(notification), *texts)]
    if notification.acknowledgements:
        blocks.append(_context(_acknowledged(notification)))
    # Slack folds long messages: the buttons and the remedy must be above the fold.
    if with_buttons and notification.firing:
        blocks.append(buttons(notification, links.cluster(root.cluster)))
    if not resolved:
        blocks += [*_remedy(root), *_evidence(root)]
    blocks += _others(notification.alerts[1:], root.cluster)
    # A phone's lock screen shows the headline.
    text = headline(notification)
    color = _RESOLVED_COLOR if resolved else _COLOR[notification.severity]
    return {"text": text, "attachments": [{"color": color, "fallback": text, "blocks": blocks}], **_NO_UNFURL}


def headline(notification: Notification) -> str:
    """Returns badge, cluster and root cause in one line."""
    cluster = escaped(notification.root.cluster, _MAX_LINE)
    if notification.state is AlertState.RESOLVED:
        badge, word = _RESOLVED_EMOJI, "RESOLVED"
    else:
        badge, word = _EMOJI[notification.severity], notification.severity.upper()
    return f"{badge} *{word}* {cluster}: {escaped(notification.summary, 2 * _MAX_LINE)}"


def reply(notification: Notification) -> dict[str, Any]:
    """Returns the reply in the thread: the new transitions, or that the incident is still open."""
    if notification.reason is NotifyReason.ACKNOWLEDGED and not notification.new_transitions:
        text = _acknowledged(notification)
        if not notification.acknowledged:
            summary = escaped(notification.summary, 2 * _MAX_LINE)
            text = f"{text}\n{_EMOJI[notification.severity]} Still {notification.severity}: {summary}"
    elif notification.state is AlertState.RESOLVED:
        text = f"{_RESOLVED_EMOJI} Resolved. The incident was open for {duration(notification.lasted_ms)}."
    elif not notification.new_transitions:
        summary = escaped(notification.summary, 2 * _MAX_LINE)
        text = f"{_EMOJI[notification.severity]} Still {notification.severity}: {summary}"
    else:
        text = "\n".join(_lines(notification.new_transitions, notification.root.cluster, room=_MAX_TEXT))
    if (silence := notification.ended_silence) is not None:
        text = f":bell: The silence by {escaped(silence.by, _MAX_LINE)} ended {_date(silence.at_ms)}.\n{text}"
    return {"text": text, **_NO_UNFURL}


def silenced_reply(done: Silenced) -> dict[str, Any]:
    """Returns the reply to a message whose alerts a person has silenced."""
    if done.until_ms is None:
        text = "Nothing is silenced: no alert of this message is firing any more."
    else:
        text = f":no_bell: Silenced by {escaped(done.by, _MAX_LINE)} until {_date(done.until_ms)}"
    return {"text": text, **_NO_UNFURL}


def _acknowledged(notification: Notification) -> str:
    """Returns by whom the incident is acknowledged, until when, and which of its alerts if not all are."""
    found = notification.acknowledgements
    if not found:
        return "No longer acknowledged."
    people = []
    for acknowledgement in found:
        by = f"by {escaped(acknowledgement.by, _MAX_LINE)}"
        ends_ms = acknowledgement.until_ms
        people.append(by if ends_ms is None else f"{by} until {_date(ends_ms)}")
    people = [*dict.fromkeys(people)]
    if len(people) > _MAX_PEOPLE:
        people[_MAX_PEOPLE:] = [f"{len(people) - _MAX_PEOPLE} more people"]
    some = "" if notification.acknowledged else f" {len(found)} of {len(notification.firing)} alerts,"
    return f":eyes:{some} {'Acknowledged' if not some else 'acknowledged'} {and_join(people)}"


def _date(at_ms: Millis) -> str:
    """Returns a time in each reader's own time zone."""
    return f"<!date^{at_ms // 1000}^{{date_short_pretty}} {{time_secs}}|{iso(at_ms)}>"


def escaped(text: str, limit: int, keep: str = "") -> str:
    """Returns the text escaped, truncated to `limit` characters as Slack counts them.

    Of control characters it has only those in `keep`.
    """
    # Three backticks would begin or end a code block: zero-width spaces separate them.
    escapes = {**_ESCAPES, "`": "`\u200b"} if _CODE_FENCE in text else _ESCAPES
    pieces: list[str] = []
    room = limit
    for each in visible(text, keep):
        piece = escapes.get(each, each)
        if len(piece) >= room:
            return "".join([*pieces, "…"])
        pieces.append(piece)
        room -= len(piece)
    return "".join(pieces)


_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _origin(notification: Notification) -> str:
    root, since = notification.root, notification.started_at_ms
    parts = [f"`{root.rule}`", escaped(root.subject, _MAX_LINE), f"first observed {_date(since)}"]
    if notification.state is AlertState.RESOLVED:
        parts.append(f"open for {duration(notification.lasted_ms)}")
    delay = delay_text(notification, "Slack")
    return " · ".join(parts if delay is None else [*parts, delay])


def _evidence(alert: Alert) -> Iterator[Block]:
    rows = evidence_lines(alert.evidence)
    width = min(max((len(name) for name, _ in rows), default=0), 40)
    lines = [f"{name:<{width}}  {value}".rstrip() for name, value in rows[:_MAX_EVIDENCE_LINES]]
    if len(rows) > _MAX_EVIDENCE_LINES:
        lines.append(f"… and {len(rows) - _MAX_EVIDENCE_LINES} more lines")
    if lines:
        yield _section(_code("\n".join(lines), _MAX_SECTION))


def _remedy(alert: Alert) -> Iterator[Block]:
    steps = [_step(number, step) for number, step in enumerate(alert.remedy[:_MAX_STEPS], start=1)]
    if len(alert.remedy) > _MAX_STEPS:
        steps.append(f"… and {len(alert.remedy) - _MAX_STEPS} more steps: `kraftwatch check` prints all of them.")
    if steps:
        yield from _sections(["*What to do*", *steps])


def _step(number: int, step: str) -> str:
    """Returns a sentence, or a command to copy: complete, or left out."""
    if step.startswith("#"):
        return f"{number}. {escaped(step.removeprefix('#').strip(), 2 * _MAX_LINE)}"
    command = _code(visible(step), len(step) * 6 + 10)
    if len(command) > _MAX_SECTION - 10:
        return f"{number}. _This command is too long for Slack: `kraftwatch check` prints it._"
    return f"{number}. Run\n{command}"


def _others(alerts: Sequence[Alert], cluster: str) -> Iterator[Block]:
    if alerts:
        yield from _sections(["*Also in this incident*", *_lines(alerts, cluster)])


def _sections(lines: Sequence[str]) -> Iterator[Block]:
    """Yields the lines in as few sections as they fit into."""
    text, *others = lines
    for line in others:
        if len(text) + len(line) + 1 > _MAX_SECTION:
            yield _section(text)
            text = line
        else:
            text = f"{text}\n{line}"
    yield _section(text)


def _lines(alerts: Sequence[Alert], cluster: str, room: int = sys.maxsize) -> Iterator[str]:
    """Yields one line per alert, of at most `room` characters together.

    The line of another cluster's alert names it: a storm incident has many clusters.
    """
    for at, alert in enumerate(alerts):
        badge = _RESOLVED_EMOJI if alert.state is AlertState.RESOLVED else _EMOJI[alert.severity]
        where = "" if alert.cluster == cluster else f"{escaped(alert.cluster, _MAX_LINE)} "
        line = f"{badge} {where}`{alert.rule}` {escaped(alert.subject, _MAX_LINE)}: {escaped(alert.summary, _MAX_LINE)}"
        room -= len(line) + 1
        if at == _MAX_OTHER_ALERTS or room < 0:
            yield f"… and {len(alerts) - at} more"
            return
        yield line


def _code(text: str, limit: int) -> str:
    return f"{_CODE_FENCE}{escaped(text, limit, keep=chr(10))}{_CODE_FENCE}"


def _section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _context(*texts: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text, "verbatim": True} for text in texts]}
