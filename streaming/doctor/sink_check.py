"""Checks a sink: whether it can be opened and, on request, whether it accepts a test notification."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import UsageError
from connectors.sinks.error_redaction import redact
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_config import Jsonl, SinkSpec
from connectors.sinks.sink_factory import open_sink
from connectors.wall_clock import wall_ms
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import single_alert_notification
from rules.notifications.route import JOB_CLUSTER_ID

DEADLINE_S = 15.0
RULE = "test"
"""In place of a rule's id."""
SUMMARY = "This is a test of kraftwatch's configuration. Nothing is wrong; no action is needed."


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCheck:
    """The result for one sink. No text contains a secret."""

    name: str
    """The name in the ledger; the kind for a sink that cannot be opened."""
    problem: str | None = None
    """Why it cannot be opened."""
    test_error: str | None = None
    """Why it did not accept the test; None if it did, or if no test was sent."""


def check_sink(spec: SinkSpec, *, state_folder: Path, send_test: bool) -> SinkCheck:
    """Opens one sink and, on request, sends a test alert that fires and resolves.

    Args:
        spec: the sink.
        state_folder: a temporary folder, so that the job's own message store is not changed.
        send_test: False sends nothing and creates no alert file.
    """
    kind = type(spec.config).__name__.lower()
    try:
        if isinstance(spec.config, Jsonl) and not spec.config.path.exists() and not send_test:
            # Not created here: the file would belong to the current user, and the job might not be able to write it.
            name = spec.name or f"jsonl:{spec.config.path.resolve()}"
            return SinkCheck(name=name, problem=_not_writable(spec.config))
        sink = open_sink(spec, state_folder=state_folder)
    except UsageError as problem:
        return SinkCheck(name=spec.name or kind, problem=str(problem))
    return SinkCheck(name=sink.options.name, test_error=_send_test(sink) if send_test else None)


def _not_writable(config: Jsonl) -> str | None:
    folder = config.path.resolve().parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist: create it, or name another file"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable for this user"


def _send_test(sink: Sink) -> str | None:
    """Returns why the sink did not accept the test; None if it did."""
    now_ms = wall_ms()
    for state in (AlertState.FIRING, AlertState.RESOLVED):
        # Resolved too, so that no incident stays open in a pager.
        try:
            outcomes: Sequence[Outcome] = sink.send(
                [single_alert_notification(_alert(state, now_ms))], sent_at_ms=now_ms, deadline_s=DEADLINE_S
            )
        except Exception as problem:  # noqa: BLE001 - a defect of one sink must not prevent the check of the others
            return redact(f"{type(problem).__name__}: {problem}")
        match outcomes:
            case [Retry(reason=reason) | Rejected(reason=reason)]:
                return reason
            case [Delivered()]:
                pass
            case _:
                return f"the sink returned {len(outcomes)} outcomes for one notification"
    return None


def _alert(state: AlertState, now_ms: Millis) -> Alert:
    return Alert(
        cluster=JOB_CLUSTER_ID,
        cluster_id=JOB_CLUSTER_ID,
        rule=RULE,
        subject="a test",
        severity=Severity.INFO,
        state=state,
        summary=SUMMARY,
        evidence={},
        remedy=("# No action is needed: this is a test.",),
        started_at_ms=now_ms,
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
        offset=None,
    )
