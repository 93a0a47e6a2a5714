"""Checks a sink: whether it can be opened and, on request, whether it accepts a test notification."""

import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from connectors.errors import UsageError
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import redact
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_config import TEST_RULE, MessageLinks, SinkSection
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.notification import single_alert_notification

_DEADLINE_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCheck:
    """The result for one sink. No text contains a secret."""

    name: str
    """The name in the ledger; the kind for a sink that cannot be opened."""
    problem: str | None = None
    """Why it cannot be opened."""
    test_error: str | None = None
    """Why it did not accept the test; None if it did, or if no test was sent."""
    not_sent: str | None = None
    """Why the requested test was not sent to it."""
    expect: str | None = None
    """What must arrive where after the test."""


def check_sink(
    section: SinkSection, links: MessageLinks, *, send_test: bool = False, severity: Severity | None = None
) -> SinkCheck:
    """Opens one sink and, on request, sends a test notification. The job's own store is not changed.

    Args:
        send_test: False sends nothing and creates no alert file.
        severity: of the test; None: the lowest that the sink takes.
    """
    with tempfile.TemporaryDirectory(prefix="kraftwatch-check-") as store:
        try:
            if (file := section.created_file()) is not None:
                name, folder = section.name or section.default_name(), file.resolve().parent
                if not send_test:
                    # Not created here: the file would belong to this user, and the job may be unable to write it.
                    return SinkCheck(name=name, problem=_not_writable(folder))
                if os.geteuid() == 0 and folder.is_dir() and folder.stat().st_uid != 0:
                    # The job, which runs as the owner of the folder, would not start any more.
                    why = f"root would create {file}, which the job's user could not write: run the test as that user"
                    return SinkCheck(name=name, test_error=why)
            sink = section.open(links, Path(store))
        except UsageError as problem:
            return SinkCheck(name=section.name or section.kind, problem=str(problem))
        name = sink.options.name
        if not send_test:
            return SinkCheck(name=name)
        lowest = section.route.min_severity
        severity = severity or lowest
        if severity.rank < lowest.rank:
            return SinkCheck(name=name, not_sent=f"not sent: the sink takes {lowest} or worse")
        error = _send_test(sink, section, severity)
        return SinkCheck(name=name, test_error=error, expect=None if error else section.expectation(name, severity))


def _not_writable(folder: Path) -> str | None:
    if not folder.is_dir():
        return f"the folder {folder} does not exist: create it, or name another file"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable for this user"


def _send_test(sink: Sink, section: SinkSection, severity: Severity) -> str | None:
    """Sends an alert that fires and resolves.

    Returns:
        Why the sink did not accept it, without a secret; None if it did.
    """
    now_ms = wall_ms()
    firing = Alert(
        cluster=JOB_CLUSTER_ID,
        cluster_id=JOB_CLUSTER_ID,
        rule=TEST_RULE,
        subject="a test",
        severity=severity,
        state=AlertState.FIRING,
        summary="This is a test of kraftwatch's configuration. Nothing is wrong; no action is needed.",
        evidence={},
        remedy=("# No action is needed: this is a test.",),
        started_at_ms=now_ms,
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
        offset=None,
    )
    error = _send(sink, firing)
    if error is not None or not section.test_resolves:
        return error
    try:
        time.sleep(section.test_open_s)
    finally:
        # Also after ^C, so that no incident stays open in a pager.
        error = _send(sink, replace(firing, state=AlertState.RESOLVED))
    return error


def _send(sink: Sink, alert: Alert) -> str | None:
    notification = single_alert_notification(alert)
    try:
        outcomes: Sequence[Outcome] = sink.send([notification], sent_at_ms=wall_ms(), deadline_s=_DEADLINE_S)
    except Exception as problem:  # noqa: BLE001 - a defect of one sink must not prevent the check of the others
        return redact(f"{type(problem).__name__}: {problem}")
    match outcomes:
        case [Retry(reason=reason) | Rejected(reason=reason)]:
            return reason
        case [Delivered()]:
            return None
        case _:
            return f"the sink returned {len(outcomes)} outcomes for one notification"
