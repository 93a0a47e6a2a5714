"""The console sink: an alert as somebody reads it at three in the morning.

Nothing is wrapped by us, so that a command can be copied out of a terminal of any width. Nothing that came from
outside is taken as markup or as a terminal's control code: names and details are data.
"""

from collections.abc import Sequence
from io import StringIO
from typing import TextIO

from rich.console import Console
from rich.text import Text

from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import duration, visible, written
from connectors.sinks.sink import Delivered, Outcome, Retry, Style, Terms
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

TERMS = Terms(name="console", style=Style.EACH)
"""Every transition, as it comes."""
_BADGE = {
    Severity.CRITICAL: "bold white on red",
    Severity.WARNING: "bold black on yellow",
    Severity.INFO: "bold white on blue",
}
_RESOLVED_BADGE = "bold black on green"
_MARGIN = "  "


class ConsoleSink:
    """Writes alerts to a stream: styled on a terminal, plain text elsewhere."""

    def __init__(self, stream: TextIO, *, terms: Terms = TERMS) -> None:
        """`stream` is asked once whether it is a terminal; NO_COLOR and FORCE_COLOR are respected."""
        self.terms = terms
        self._stream = stream
        self._terminal = Console(file=stream).is_terminal

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Write their news, one after the other; what the stream did not take is a Retry."""
        written = 0
        try:
            for notice in notices:
                for alert in notice.news:
                    self._write(rendered(alert))
                written += 1
        except (OSError, ValueError) as error:
            # A closed stream is a ValueError.
            reason = error.strerror if isinstance(error, OSError) else str(error)
            retry = Retry(reason=f"the console cannot be written: {reason}")
            return [Delivered()] * written + [retry] * (len(notices) - written)
        return [Delivered()] * written

    def _write(self, text: Text) -> None:
        # Rendered apart and written here: rich ends the whole process when a pipe is broken.
        styled = StringIO()
        Console(file=styled, force_terminal=self._terminal, highlight=False).print(text, soft_wrap=True)
        encoding = self._stream.encoding or "utf-8"
        self._stream.write(styled.getvalue().encode(encoding, "replace").decode(encoding))
        self._stream.flush()


def rendered(alert: Alert) -> Text:
    """The alert as styled text that ends in an empty line."""
    match alert.state:
        case AlertState.FIRING:
            return _firing(alert)
        case AlertState.RESOLVED:
            return _resolved(alert)


def _firing(alert: Alert) -> Text:
    stood_ms = alert.observed_at_ms - alert.started_at_ms
    text = _headline(alert, alert.severity.upper(), _BADGE[alert.severity], "bold")
    text.append(f"{_MARGIN}{visible(alert.summary)}\n", "bold")
    text.append(f"{_MARGIN}since {iso(alert.started_at_ms)}, {duration(stood_ms)} ago", "dim")
    text.append("" if alert.offset is None else f", at offset {alert.offset}", "dim")
    text.append("\n")
    rows = written(alert.evidence)
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
    text.append(f"  {iso(alert.observed_at_ms)}\n", "dim")
    return text


def _append_step(text: Text, number: int, step: str) -> None:
    """A sentence reads as one, a command stands whole on one line of its own, as it is to be pasted."""
    text.append(f"{_MARGIN}{number:>2}. ", "dim")
    if step.startswith("#"):
        text.append(f"{visible(step.removeprefix('#').strip())}\n")
    else:
        text.append(f"{visible(step, keep=chr(10))}\n", "bold green")
