"""A trial of the sinks: can each be opened, and, if asked for, does it take a message that is clearly a test."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import UsageError
from connectors.sinks.error_redaction import redact
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_config import Jsonl, Wanted
from connectors.sinks.sink_factory import open_sink
from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import each
from rules.notifications.route import OWN

DEADLINE_S = 15.0
RULE = "test"
"""In the place of a rule's id."""
SUMMARY = "This is a test of kraftwatch's configuration: nothing is wrong, and nothing is to be done."


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What came of one sink. Neither sentence holds a secret."""

    name: str
    """As the ledger calls it; for one that cannot be opened, its kind."""
    problem: str | None = None
    """Why it cannot be opened."""
    refused: str | None = None
    """Why it did not take the test message; None as well where none was sent."""


def tried(wanted: Wanted, *, memory: Path, send_test: bool) -> Tried:
    """Open one sink, and let it tell that a test fires and is over.

    Args:
        wanted: which.
        memory: a folder of this trial's own: the job's memory of what it posted is left alone.
        send_test: without it nothing is sent, and no file of alerts is made.
    """
    kind = type(wanted.place).__name__.lower()
    try:
        if isinstance(wanted.place, Jsonl) and not wanted.place.path.exists() and not send_test:
            # Made by whoever checks, it might not be the job's to write.
            return Tried(name=wanted.name or f"jsonl:{wanted.place.path.resolve()}", problem=_unwritable(wanted.place))
        sink = open_sink(wanted, memory=memory)
    except UsageError as problem:
        return Tried(name=wanted.name or kind, problem=str(problem))
    return Tried(name=sink.terms.name, refused=_refusal(sink) if send_test else None)


def _unwritable(place: Jsonl) -> str | None:
    folder = place.path.resolve().parent
    if not folder.is_dir():
        return f"the folder {folder} is not there: make it, or name another file"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} cannot be written by this user"


def _refusal(sink: Sink) -> str | None:
    now_ms = Millis(round(time.time() * 1000))
    for state in (AlertState.FIRING, AlertState.RESOLVED):
        # Told as over as well: no page stays open for a test.
        try:
            outcomes: Sequence[Outcome] = sink.tell(
                [each(_alert(state, now_ms))], sent_at_ms=now_ms, deadline_s=DEADLINE_S
            )
        except Exception as problem:  # noqa: BLE001 - a fault of one sink is its own: the others are tried all the same
            return redact(f"{type(problem).__name__}: {problem}")
        match outcomes:
            case [Retry(reason=reason) | Rejected(reason=reason)]:
                return reason
            case [Delivered()]:
                pass
            case _:
                return f"the sink gave {len(outcomes)} answers to one message"
    return None


def _alert(state: AlertState, now_ms: Millis) -> Alert:
    return Alert(
        cluster=OWN,
        cluster_id=OWN,
        rule=RULE,
        subject="a test",
        severity=Severity.INFO,
        state=state,
        summary=SUMMARY,
        evidence={},
        remedy=("# Nothing: this is a test.",),
        started_at_ms=now_ms,
        due_at_ms=now_ms,
        observed_at_ms=now_ms,
        offset=None,
    )
