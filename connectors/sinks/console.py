"""The console sink: prints alerts for people.

Lines are not wrapped, so that a command can be copied from a terminal of any width. Text from outside (names,
details) is never interpreted as markup or as terminal control codes.
"""

import sys
from collections.abc import Sequence
from io import StringIO
from typing import TextIO

from rich.console import Console as RichConsole
from rich.text import Text

from connectors.process.json_log import alert_fields, json_event, uses_json
from connectors.sinks.alert_json import minimal_alert
from connectors.sinks.sink import Delivered, DeliveryMode, Outcome, Retry
from connectors.sinks.sink_config import MessageLinks, SinkSection
from connectors.store.store_place import StorePlace
from rules.alert import Alert, AlertState
from rules.evidence_text import evidence_lines
from rules.finding import Severity
from rules.formatting import iso, late_text, visible
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_BADGE = {
    Severity.CRITICAL: "bold white on red",
    Severity.WARNING: "bold black on yellow",
    Severity.INFO: "bold white on blue",
}
_LEVEL = {Severity.CRITICAL: "ERROR", Severity.WARNING: "WARNING", Severity.INFO: "INFO"}
_RESOLVED_BADGE = "bold black on green"
_MARGIN = "  "


class ConsoleSection(SinkSection):
    """The stderr of the job."""

    form = "console"
    expected = "stderr shows two lines above: firing and resolved"
    mode = DeliveryMode.TRANSITIONS

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return "console"

    def open(self, links: MessageLinks, store: StorePlace) -> "ConsoleSink":
        """Opens the sink."""
        return ConsoleSink(sys.stderr, self, as_json=uses_json())


class ConsoleSink:
    """Writes alerts to a stream: with styles on a terminal, otherwise as plain text."""

    def __init__(self, stream: TextIO, section: ConsoleSection | None = None, *, as_json: bool = False) -> None:
        """Checks once whether `stream` is a terminal; NO_COLOR and FORCE_COLOR are respected.

        `as_json`: writes each transition as one log event.
        """
        self._as_json = as_json
        self.options = (section or ConsoleSection()).options
        self._stream = stream
        self._terminal = RichConsole(file=stream).is_terminal

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        """Writes the new transitions in order; what the stream did not accept is a Retry."""
        written = 0
        try:
            for notification in notifications:
                for alert in notification.new_transitions:
                    self._write(_event(alert) if self._as_json else self._rendered(_formatted(alert)))
                written += 1
        except (OSError, ValueError) as error:
            # A closed stream raises ValueError.
            reason = error.strerror if isinstance(error, OSError) else str(error)
            retry = Retry(reason=f"the console cannot be written: {reason}")
            return [Delivered()] * written + [retry] * (len(notifications) - written)
        return [Delivered()] * written

    def _rendered(self, text: Text) -> str:
        # Rendered into a buffer first: rich ends the whole process when a pipe is broken.
        styled = StringIO()
        RichConsole(file=styled, force_terminal=self._terminal, highlight=False).print(text, soft_wrap=True)
        return styled.getvalue()

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(text.encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def _event(alert: Alert) -> str:
    """Returns a transition as a log event: summary, and the keys of the alert's JSON that name it."""
    fires = alert.state is AlertState.FIRING
    level = _LEVEL[alert.severity] if fires else "INFO"
    return json_event(alert.summary, level=level, logger="kraftwatch.alert", **alert_fields(alert))


def _formatted(alert: Alert) -> Text:
    try:
        return rendered(alert)
    except Exception:  # noqa: BLE001 - whatever it contains, people must be notified
        return rendered(minimal_alert(alert))


def rendered(alert: Alert) -> Text:
    """Returns the alert as styled text that ends in an empty line."""
    return _firing(alert) if alert.state is AlertState.FIRING else _resolved(alert)


def _firing(alert: Alert) -> Text:
    text = _headline(alert, alert.severity.upper(), _BADGE[alert.severity], "bold")
    text.append(f"{_MARGIN}{visible(alert.summary)}\n", "bold")
    text.append(f"{_MARGIN}first observed {iso(alert.started_at_ms)}", "dim")
    text.append("" if alert.offset is None else f", at offset {alert.offset}", "dim")
    text.append("\n")
    rows = evidence_lines(alert.evidence)
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        text.append(f"{_MARGIN}{name:<{width}}  " if value else f"{_MARGIN}{name}", "cyan")
        text.append(f"{value}\n")
    for number, step in enumerate(alert.remedy, start=1):
        _append_step(text, number, step)
    return text


def _resolved(alert: Alert) -> Text:
    text = _headline(alert, "RESOLVED", _RESOLVED_BADGE, "green")
    text.append(f"{_MARGIN}{visible(alert.summary)}\n", "green")
    return text


def _headline(alert: Alert, badge: str, badge_style: str, style: str) -> Text:
    text = Text()
    text.append(f" {badge} ", badge_style)
    text.append(f" {visible(alert.cluster)}  {visible(alert.rule)}", style)
    text.append(f"  {visible(alert.subject)}", style)
    late = "" if alert.late_ms is None else f", {late_text(alert.late_ms)}"
    text.append(f"  {iso(alert.observed_at_ms)}{late}\n", "dim")
    return text


def _append_step(text: Text, number: int, step: str) -> None:
    """Appends a sentence without its `#`, or a command on its own line, as it is to be pasted."""
    text.append(f"{_MARGIN}{number:>2}. ", "dim")
    if step.startswith("#"):
        text.append(f"{visible(step.removeprefix('#').strip())}\n")
    else:
        text.append(f"{visible(step)}\n", "bold green")
