"""Checks a sink: whether it can be opened and, on request, whether it accepts a test notification."""

import os
from dataclasses import dataclass
from pathlib import Path

from connectors.errors import UsageError
from connectors.sinks.sink_config import Jsonl, SinkSpec
from connectors.sinks.sink_factory import open_sink
from streaming.doctor.notification_test import NotificationTest, expectation, send_test


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


def check_sink(spec: SinkSpec, *, state_folder: Path, test: NotificationTest | None = None) -> SinkCheck:
    """Opens one sink and, on request, sends a test notification.

    Args:
        spec: the sink.
        state_folder: a temporary folder, so that the job's own message store is not changed.
        test: the test to send; None sends nothing and creates no alert file.
    """
    kind = type(spec.config).__name__.lower()
    try:
        if isinstance(spec.config, Jsonl) and not spec.config.path.exists() and test is None:
            # Not created here: the file would belong to the current user, and the job might not be able to write it.
            name = spec.name or f"jsonl:{spec.config.path.resolve()}"
            return SinkCheck(name=name, problem=_not_writable(spec.config))
        sink = open_sink(spec, state_folder=state_folder)
    except UsageError as problem:
        return SinkCheck(name=spec.name or kind, problem=str(problem))
    name = sink.options.name
    if test is None:
        return SinkCheck(name=name)
    severity = test.severity_for(spec)
    if severity is None:
        return SinkCheck(name=name, not_sent=f"not sent: the sink takes {spec.route.min_severity} or worse")
    error = send_test(sink, spec, severity, test.pause)
    return SinkCheck(name=name, test_error=error, expect=None if error else expectation(spec, name, severity))


def _not_writable(config: Jsonl) -> str | None:
    folder = config.path.resolve().parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist: create it, or name another file"
    return None if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable for this user"
