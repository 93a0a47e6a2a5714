"""Blocks: a notice as a Slack message, within Slack's limits, with everything that came from a cluster as data.

https://docs.slack.dev/reference/block-kit/blocks: 50 blocks a message, 3000 characters a section, 10 elements a
context. https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are all that must be escaped, and
mentions and links can be written with `<` alone, as long as `parse` is `none` and `verbatim` is set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import duration, visible, written
from connectors.sinks.links import Links
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

Block: TypeAlias = dict[str, Any]

_SECTION = 2_900
"""Characters of a section, with room for what frames them."""
_STEPS = 12
_OTHERS = 12
_LINE = 300
_EVIDENCE_LINES = 25
_EMOJI = {
    Severity.CRITICAL: ":red_circle:",
    Severity.WARNING: ":large_yellow_circle:",
    Severity.INFO: ":large_blue_circle:",
}
_COLOR = {Severity.CRITICAL: "#d72b3f", Severity.WARNING: "#e8a723", Severity.INFO: "#2f6fd6"}
_OVER_EMOJI, _OVER_COLOR = ":white_check_mark:", "#2eb67d"
_FENCE = "```"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What chat.postMessage and an incoming webhook take."""

    text: str
    """The headline: what a phone's lock screen shows."""
    color: str
    """Of the bar beside the blocks: red, yellow, blue, green."""
    blocks: tuple[Block, ...]

    def body(self) -> dict[str, Any]:
        """As keywords of the call. The color needs an attachment around the blocks."""
        attachment = {"color": self.color, "fallback": self.text, "blocks": list(self.blocks)}
        return {"text": self.text, "attachments": [attachment], **_QUIET}


_QUIET: dict[str, Any] = {"parse": "none", "link_names": False, "unfurl_links": False, "unfurl_media": False}


def message(notice: Notice, links: Links) -> Message:
    """The message that stands for an incident, as it is now."""
    over = notice.state is AlertState.RESOLVED
    root = notice.root
    blocks = [_context(_origin(notice), *_linked(root, links))]
    if not over:
        # Slack folds what is long: what to do stands above the fold.
        blocks += [*_remedy(root), *_evidence(root)]
    blocks += _others(notice.alerts[1:], root.cluster)
    return Message(text=headline(notice), color=_OVER_COLOR if over else _COLOR[notice.severity], blocks=tuple(blocks))


def plain(notice: Notice, links: Links) -> dict[str, Any]:
    """The message without blocks, for when Slack takes the blocks for wrong: less of it, but told."""
    return {"text": "\n".join([headline(notice), _origin(notice), *_linked(notice.root, links)]), **_QUIET}


def headline(notice: Notice) -> str:
    """Badge, cluster and the root cause in one line."""
    root = notice.root
    if notice.state is AlertState.RESOLVED:
        badge, word = _OVER_EMOJI, "RESOLVED"
    else:
        badge, word = _EMOJI[notice.severity], notice.severity.upper()
    return f"{badge} *{word}* {escaped(root.cluster, _LINE)}: {escaped(root.summary, 2 * _LINE)}"


def reply(notice: Notice) -> dict[str, Any]:
    """What is said in the thread: what is new, or that it still stands."""
    stood = duration(max(alert.observed_at_ms for alert in notice.alerts) - notice.started_at_ms)
    if notice.state is AlertState.RESOLVED:
        text = f"{_OVER_EMOJI} Resolved after {stood}."
    elif not notice.news:
        text = f"{_EMOJI[notice.severity]} Still {notice.severity}: {escaped(notice.root.summary, 2 * _LINE)}"
    else:
        text = "\n".join(_lines(notice.news, notice.root.cluster))
    return {"text": text, **_QUIET}


def escaped(text: str, limit: int) -> str:
    """The text as data: escaped, without control characters, cut to so many characters of what Slack counts."""
    # Three backticks would begin or end a block of code: something unseen between them keeps them apart.
    escapes = {**_ESCAPES, "`": "`\u200b"} if _FENCE in text else _ESCAPES
    pieces: list[str] = []
    room = limit
    for each in visible(text, keep="\n"):
        piece = escapes.get(each, each)
        if len(piece) >= room:
            return "".join([*pieces, "…"])
        pieces.append(piece)
        room -= len(piece)
    return "".join(pieces)


_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _origin(notice: Notice) -> str:
    root, since = notice.root, notice.started_at_ms
    when = f"<!date^{since // 1000}^{{date_short_pretty}} {{time_secs}}|{iso(since)}>"
    parts = [f"`{root.rule}`", escaped(root.subject, _LINE), f"since {when}"]
    if notice.state is AlertState.RESOLVED:
        parts.append(f"stood for {duration(Millis(root.observed_at_ms - since))}")
        if not notice.known:
            parts.append("came and went while Slack could not be told")
    return " · ".join(parts)


def _linked(root: Alert, links: Links) -> Iterator[str]:
    for url, label in ((links.rule(root.rule), "What it means"), (links.cluster(root.cluster), "The cluster now")):
        if url is not None:
            yield f"<{escaped(url, _SECTION)}|{label}>"


def _evidence(alert: Alert) -> Iterator[Block]:
    rows = written(alert.evidence)
    width = min(max((len(name) for name, _ in rows), default=0), 40)
    lines = [f"{name:<{width}}  {value}".rstrip() for name, value in rows[:_EVIDENCE_LINES]]
    if len(rows) > _EVIDENCE_LINES:
        lines.append(f"… and {len(rows) - _EVIDENCE_LINES} more lines")
    if lines:
        yield _section(_code("\n".join(lines), _SECTION))


def _remedy(alert: Alert) -> Iterator[Block]:
    steps = [_step(number, step) for number, step in enumerate(alert.remedy[:_STEPS], start=1)]
    if len(alert.remedy) > _STEPS:
        steps.append(f"… and {len(alert.remedy) - _STEPS} more steps: `kraftwatch check` tells them all.")
    text = "*What to do*" if steps else ""
    for step in steps:
        if len(text) + len(step) + 1 > _SECTION:
            yield _section(text)
            text = step
        else:
            text = f"{text}\n{step}"
    if text:
        yield _section(text)


def _step(number: int, step: str) -> str:
    """A sentence, or a command as it is to be pasted: whole, or not at all."""
    if step.startswith("#"):
        return f"{number}. {escaped(step.removeprefix('#').strip(), 2 * _LINE)}"
    command = _code(step, len(step) * 6 + 10)
    if len(command) > _SECTION - 10:
        return f"{number}. _A command too long for Slack: `kraftwatch check` tells it._"
    return f"{number}. Run\n{command}"


def _others(alerts: Sequence[Alert], cluster: str) -> Iterator[Block]:
    if not alerts:
        return
    text = ""
    for line in ["*With it*", *_lines(alerts, cluster)]:
        if len(text) + len(line) + 1 > _SECTION:
            yield _section(text)
            text = line
        else:
            text = f"{text}\n{line}".strip()
    yield _section(text)


def _lines(alerts: Sequence[Alert], cluster: str) -> Iterator[str]:
    """One for each; those of another cluster than the headline's say so: a storm is one message of many clusters."""
    for alert in alerts[:_OTHERS]:
        badge = _OVER_EMOJI if alert.state is AlertState.RESOLVED else _EMOJI[alert.severity]
        where = "" if alert.cluster == cluster else f"{escaped(alert.cluster, _LINE)} "
        yield f"{badge} {where}`{alert.rule}` {escaped(alert.subject, _LINE)}: {escaped(alert.summary, _LINE)}"
    if len(alerts) > _OTHERS:
        yield f"… and {len(alerts) - _OTHERS} more"


def _code(text: str, limit: int) -> str:
    return f"{_FENCE}{escaped(text, limit)}{_FENCE}"


def _section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _context(*texts: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text, "verbatim": True} for text in texts]}
