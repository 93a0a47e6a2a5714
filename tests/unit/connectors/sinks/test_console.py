"""The console sink: texts, styles and errors."""

import errno
import io
from typing import Any

import pytest

from connectors.sinks.console import ConsoleSink
from connectors.sinks.sink import Delivered, Retry
from rules.alert import Alert
from rules.finding import Severity
from rules.notifications.notification import single_alert_notification
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

LONG_COMMAND = "bin/kafka-metadata-quorum.sh --bootstrap-controller c1:9093 " + "--controller-id 2 " * 20

EVIDENCE: dict[str, Any] = {
    "vantage": "inside",
    "could_win": False,
    "isr": [1, 2, 3],
    "lost": [],
    "directory": None,
    "fetch_age_ms": 185_000,
    "newest_timestamp_ms": NOON_MS,
    "voters": [
        {"id": 2, "endpoint": "c2.kafka:9093", "resolution": "name-gone"},
        {"id": 13, "endpoint": "c3:9093", "resolution": None},
    ],
    "blocked": {"by_candidate": {"1": ["2 unreachable"], "2": ["x" * 100, "y"]}, "epoch": 7},
}


def printed(*alerts: Alert, **stream: Any) -> str:
    target = io.StringIO(**stream)
    assert ConsoleSink(target).send(
        [single_alert_notification(one) for one in alerts], sent_at_ms=NOON_MS, deadline_s=1
    ) == [Delivered()] * len(alerts)
    return target.getvalue()


def test_a_firing_alert_is_printed_with_evidence_and_remedy() -> None:
    one = alert(evidence=EVIDENCE, remedy=("# Put the name c2.kafka back:", LONG_COMMAND))
    assert printed(one) == (
        " CRITICAL  alpha  no-leader  voter 2  2026-11-20T05:01:07.345Z\n"
        "  No leader elected.\n"
        "  first observed 2026-11-20T05:01:02.345Z, at offset 991\n"
        "  vantage           inside\n"
        "  could_win         no\n"
        "  isr               1, 2, 3\n"
        "  lost              none\n"
        "  directory         unknown\n"
        "  fetch_age         3 min 5 s\n"
        "  newest_timestamp  2026-11-20T05:01:02.345Z\n"
        "  voters            id  endpoint       resolution\n"
        "                    2   c2.kafka:9093  name-gone\n"
        "                    13  c3:9093        unknown\n"
        "  blocked\n"
        "    by_candidate\n"
        "      1             2 unreachable\n"
        f"      2             {'x' * 100}\n"
        "                    y\n"
        "    epoch           7\n"
        "   1. Put the name c2.kafka back:\n"
        f"   2. {LONG_COMMAND}\n"
        "\n"
    )


def test_a_resolved_alert_is_printed_in_two_lines() -> None:
    one = alert(evidence=EVIDENCE, resolved=True, offset=None)
    assert printed(one) == (" RESOLVED  alpha  no-leader  voter 2  2026-11-20T05:01:07.345Z\n  No leader elected.\n\n")


def test_an_alert_that_was_found_in_a_backlog_says_how_late_it_was_read() -> None:
    headline, *_ = printed(alert(late_ms=47 * 60_000)).splitlines()
    assert headline.endswith("2026-11-20T05:01:07.345Z, read 47 min late")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("severity", "resolved", "style"),
    [
        (Severity.CRITICAL, False, "\x1b[1;37;41m CRITICAL \x1b[0m"),
        (Severity.WARNING, False, "\x1b[1;30;43m WARNING \x1b[0m"),
        (Severity.INFO, False, "\x1b[1;37;44m INFO \x1b[0m"),
        (Severity.CRITICAL, True, "\x1b[1;30;42m RESOLVED \x1b[0m"),
    ],
)
def test_a_terminal_gets_colours_and_no_line_is_wrapped(
    monkeypatch: pytest.MonkeyPatch, severity: Severity, resolved: bool, style: str
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    one = alert(severity=severity, resolved=resolved, remedy=(LONG_COMMAND,))
    ConsoleSink(terminal).send([single_alert_notification(one)], sent_at_ms=NOON_MS, deadline_s=1)
    assert terminal.getvalue().startswith(style)
    if not resolved:
        assert LONG_COMMAND in terminal.getvalue()


def test_text_from_outside_is_neither_markup_nor_control_codes() -> None:
    hostile = "[bold red]x[/] :fire: \x1b[2J\x07\r\n\u202egnp\u200b"
    escaped = "[bold red]x[/] :fire: \\x1b[2J\\x07\\r\\n\\u202egnp\\u200b"
    one = alert(
        hostile,
        cluster=hostile,
        rule=hostile,
        summary=hostile,
        evidence={hostile: hostile, "deep": {hostile: {hostile: "x" * 100}}, "table": [{hostile: hostile}]},
        remedy=("# " + hostile, "echo " + hostile.replace("\n", "")),
    )
    text = printed(one)
    assert not set(text) & {"\x1b", "\x07", "\r", "\u202e", "\u200b"}
    # Headline 3, summary, name and value, nested twice, a table's column and cell, the first step.
    assert text.count(escaped) == 11
    assert "[bold red]x[/] :fire: " in printed(alert(summary=hostile, resolved=True))


def test_a_step_stays_on_its_line() -> None:
    assert "   1. cat <<END\\nhello\\nEND\n" in printed(alert(remedy=("cat <<END\nhello\nEND",)))


def test_a_character_that_the_stream_cannot_encode_becomes_a_question_mark() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    ConsoleSink(stream).send(
        [single_alert_notification(alert(summary="weg – für immer"))], sent_at_ms=NOON_MS, deadline_s=1
    )
    assert b"  weg ? f?r immer\n" in raw.getvalue()


class BrokenPipe(io.StringIO):
    writes = 0

    def write(self, text: str) -> int:
        if self.writes:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        self.writes += 1
        return len(text)


def test_a_broken_pipe_is_a_retry_of_what_was_not_written() -> None:
    outcomes = ConsoleSink(BrokenPipe()).send(
        [single_alert_notification(alert())] * 3, sent_at_ms=NOON_MS, deadline_s=1
    )
    assert outcomes == [Delivered(), *[Retry(reason="the console cannot be written: Broken pipe")] * 2]
