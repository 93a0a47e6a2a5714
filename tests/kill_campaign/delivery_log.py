"""The log of a job's deliveries: each call of a sink for people, and what the ledger recorded.

The job writes it, the campaign reads it. With the requests that the services accepted it explains every duplicate.
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

from tests.kill_campaign.import_hook import Change
from tests.kill_campaign.kill_order import append_line

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
    """The ledger recorded that these transitions are delivered to a sink, or are never sent to it."""

    t: float
    sink: str
    keys: frozenset[str]
    incidents: frozenset[str]
    """The incidents that the sink was notified of, repetitions included."""
    discarded: bool
    finished: bool
    """False: written before the ledger's write, which a kill may have prevented."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLog:
    """The content of the file, in the order of time."""

    attempts: Sequence[Attempt]
    marks: Sequence[LedgerMark]


def key_text(key: Sequence[object]) -> str:
    """Returns `Alert.key` as one text."""
    return "|".join(map(str, key))


def changes(folder: Path) -> Iterator[tuple[str, Change]]:
    """Yields the changes, by module, with which a job writes the file."""
    file = folder / FILE
    for module, sink in (("connectors.sinks.pagerduty", "PagerdutySink"), ("connectors.sinks.slack", "SlackSink")):
        yield module, functools.partial(_log_attempts, file=file, sink=sink)
    yield "connectors.delivery.ledger", functools.partial(_log_marks, file=file)


def read(folder: Path) -> DeliveryLog:
    """Reads the file."""
    attempts, marks = [], []
    path = folder / FILE
    lines = path.read_bytes().splitlines() if path.exists() else []
    for line in map(json.loads, lines):
        keys = frozenset(line["keys"])
        if line["what"] == "attempt":
            named = {name: line[name] for name in ("t", "pid", "sink", "incident", "reason")}
            attempts.append(Attempt(keys=keys, **named))
        else:
            marks.append(
                LedgerMark(
                    t=line["t"],
                    sink=line["sink"],
                    keys=keys,
                    incidents=frozenset(line["incidents"]),
                    discarded=line["what"].startswith("discard"),
                    finished=line["what"].endswith("ed"),
                )
            )
    return DeliveryLog(attempts=attempts, marks=marks)


def _write(file: Path, **fields: Any) -> None:
    append_line(file, {"t": time.monotonic(), "pid": os.getpid(), **fields})


def _log_attempts(module: ModuleType, *, file: Path, sink: str) -> None:
    owner = getattr(module, sink)
    send_one = owner._send_one

    def logged(self: Any, notification: Any, *rest: Any) -> Any:
        _write(
            file,
            what="attempt",
            sink=self.options.name,
            incident=notification.incident,
            reason=str(notification.reason),
            keys=[key_text(alert.key) for alert in notification.new_transitions],
        )
        return send_one(self, notification, *rest)

    owner._send_one = logged


def _log_marks(module: ModuleType, *, file: Path) -> None:
    ledger = module.Ledger

    def logged(name: str, before: str, after: str) -> None:
        function: Callable[..., None] = getattr(ledger, name)

        def wrapped(self: Any, sink: str, keys: Any, **options: Any) -> None:
            texts = [key_text(key) for key in keys]
            incidents = sorted(options.get("notified_ms") or ())
            _write(file, what=before, sink=sink, keys=texts, incidents=incidents)
            function(self, sink, keys, **options)
            _write(file, what=after, sink=sink, keys=texts, incidents=incidents)

        setattr(ledger, name, wrapped)

    logged("mark_delivered", "delivering", "delivered")
    logged("discard", "discarding", "discarded")
