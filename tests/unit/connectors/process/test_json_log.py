"""Log events as JSON: one object a line, whatever a message holds."""

import json
import logging
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from connectors.process import json_log
from connectors.process.json_log import alert_fields
from connectors.sinks.console import ConsoleSink
from rules.notifications.notification import single_alert_notification
from streaming.cli.output import print_message, print_progress
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.job.captured_log import logged_to

HOSTILE = 'cluster \x1b[2J says "no"\nand more'


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_warning_is_one_event_on_the_terminal_and_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = alert()
    with logged_to(tmp_path, "json"):
        try:
            int(HOSTILE)
        except ValueError:
            logging.getLogger("streaming.job").exception("%s", HOSTILE, extra=alert_fields(one))

    (event,) = events(printed := capsys.readouterr().err)
    assert "\x1b" not in printed
    assert event.pop("time").endswith("+00:00")
    assert "invalid literal for int" in event.pop("exception")
    assert event == {
        "level": "ERROR",
        "logger": "streaming.job",
        "message": HOSTILE,
        "cluster": one.cluster,
        "rule": one.rule,
        "subject": one.subject,
        "severity": "critical",
        "state": "firing",
        "fingerprint": one.fingerprint,
    }
    assert events((tmp_path / "driver.log").read_text())[-1]["fingerprint"] == one.fingerprint


def test_the_console_writes_a_transition_as_one_event() -> None:
    stream = StringIO()
    notifications = [single_alert_notification(one) for one in (alert(), alert(resolved=True))]
    ConsoleSink(stream, as_json=True).send(notifications, sent_at_ms=NOON_MS, deadline_s=1)

    found = events(stream.getvalue())
    assert [(one["state"], one["level"], one["logger"]) for one in found] == [
        ("firing", "ERROR", "kraftwatch.alert"),
        ("resolved", "INFO", "kraftwatch.alert"),
    ]
    assert {one["message"] for one in found} == {alert().summary, alert(resolved=True).summary}


def test_progress_and_the_error_that_ends_the_job_are_events(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(json_log, "_used", True)
    print_progress("starting Spark")
    print_message(HOSTILE)

    found = events(capsys.readouterr().err)
    assert [(one["level"], one["message"]) for one in found] == [("INFO", "starting Spark"), ("ERROR", HOSTILE)]
