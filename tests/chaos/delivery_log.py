"""The log of a job's deliveries: each call of a sink for people, and what the ledger recorded.

The job writes it, the run reads it. With the requests that the services accepted it explains every duplicate.
Standard library only.
"""

import functools
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.chaos.kill_order import append_line

FILE = "deliveries.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One call of a sink for one notification."""

    t: float
    """Monotonic seconds: the same clock in all processes."""
    pid: int
    sink: str
    incident: str
    reason: str
    keys: frozenset[str]
    """The transitions that the notification reports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMark:
    """The ledger recorded that these transitions are delivered to a sink."""

    t: float
    sink: str
    keys: frozenset[str]
    incidents: frozenset[str]
    """The incidents that the sink was notified of, repetitions included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLog:
    """The content of the file, in the order of time."""

    attempts: Sequence[Attempt]
    marks: Sequence[LedgerMark]


def key_text(key: Sequence[object]) -> str:
    """Returns `Alert.key` as one text."""
    return "|".join(map(str, key))


def changes(folder: Path) -> Iterator[tuple[str, Callable[[ModuleType], None]]]:
    """Yields the changes, by module, with which a job writes the file."""
    file = folder / FILE
    for module, sink in (
        ("connectors.sinks.pagerduty.send", "PagerdutySink"),
        ("connectors.sinks.slack.send", "SlackSink"),
    ):
        yield module, functools.partial(_log_attempts, file=file, sink=sink)
    yield "connectors.delivery.ledger", functools.partial(_log_marks, file=file)


def read(folder: Path) -> DeliveryLog:
    """Reads the file."""
    attempts, marks = [], []
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    for line in map(json.loads, lines):
        values: dict[str, Any] = {
            name: frozenset(value) if isinstance(value, list) else value for name, value in line.items()
        }
        if "reason" in values:
            attempts.append(Attempt(**values))
        else:
            marks.append(LedgerMark(**values))
    return DeliveryLog(attempts=attempts, marks=marks)


def _write(file: Path, **fields: Any) -> None:
    append_line(file, {"t": time.monotonic(), **fields})


def _log_attempts(module: ModuleType, *, file: Path, sink: str) -> None:
    owner = getattr(module, sink)
    send_one = owner._send_one

    def logged(self: Any, notification: Any, *rest: Any) -> Any:
        _write(
            file,
            pid=os.getpid(),
            sink=self.options.name,
            incident=notification.incident,
            reason=str(notification.reason),
            keys=[key_text(alert.key) for alert in notification.new_transitions],
        )
        return send_one(self, notification, *rest)

    owner._send_one = logged


def _log_marks(module: ModuleType, *, file: Path) -> None:
    mark_delivered = module.Ledger.mark_delivered

    def logged(self: Any, sink: str, keys: Any, **options: Any) -> None:
        mark_delivered(self, sink, keys, **options)
        _write(file, sink=sink, keys=[*map(key_text, keys)], incidents=sorted(options.get("notified") or ()))

    module.Ledger.mark_delivered = logged
