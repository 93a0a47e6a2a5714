"""The table of sent alerts, from the ledger or from a jsonl sink's file."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.sinks.alert_json import from_iso, to_object
from connectors.store.alert_store import AlertStore
from connectors.store.stored_json import parse_json
from connectors.store.tables import job_database
from rules.alert import AlertState, fingerprint
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from streaming.data_quality.contract import Suite, Table

CLOCK_SKEW_MS = 300_000
"""How far the gatherer's clock, which never goes back, may be ahead of the driver's (ms)."""
FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "cluster": str,
    "cluster_id": str,
    "rule": str,
    "subject": str,
    "severity": str,
    "state": str,
    "summary": str,
    "evidence": dict,
    "remedy": list,
    "started_at": str,
    "observed_at": str,
    "sent_at": str,
    "offset": (int, type(None)),
    "fingerprint": str,
}
"""The fields of a line and the type of each: `connectors.sinks.alert_json` and docs/alert.schema.json."""
_PLACEHOLDER = re.compile(r"\$(?!BOOTSTRAP\b|NODE_PROPERTIES\b)\{?[A-Z_]{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAlert:
    """One sent alert: its line number and its JSON object."""

    number: int
    fields: Mapping[str, Any]


class AlertTable:
    """A resolved alert is compared with former firing ones, from table to table."""

    def __init__(self) -> None:
        self.table = Table(Suite.ALERTS)
        self._begins_ms: int | None = None
        """When the first of the consecutive alerts was sent: an alert that started earlier may have fired before."""
        self._next_number: int | None = None
        self._firing: set[str] = set()

    def add(self, line: SentAlert) -> None:
        """Adds one alert."""
        fields = line.fields
        started_at_ms, observed_at_ms, sent_at_ms = (_time(fields.get(f"{name}_at")) for name in _TIMES)
        # A ledger deletes the oldest alerts but keeps firing ones: a missing number starts a new sequence.
        if self._begins_ms is None or line.number != self._next_number:
            self._begins_ms = sent_at_ms
        self._next_number = line.number + 1
        parts = [fields.get(name) for name in ("cluster_id", "rule", "subject")]
        rule = fields.get("rule")
        self.table.rows.append(
            {
                "line": line.number,
                **{
                    name: _text(fields.get(name)) for name in ("cluster", "severity", "state", "summary", "fingerprint")
                },
                "unknown_rule": None if rule is None or str(rule) in RULES else str(rule)[:80],
                "expected_fingerprint": fingerprint(*map(str, parts)),
                "started_at_ms": started_at_ms,
                "observed_at_ms": observed_at_ms,
                "latest_observed_at_ms": None if sent_at_ms is None else sent_at_ms + CLOCK_SKEW_MS,
                "odd_fields": _odd_fields(fields),
                "odd_remedy": _odd_remedy(fields.get("remedy")),
                "resolved_without_firing": self._resolved_without_firing(fields, started_at_ms),
            }
        )

    def _resolved_without_firing(self, fields: Mapping[str, Any], started_at_ms: int | None) -> str | None:
        identity = str(fields.get("fingerprint"))
        if fields.get("state") == AlertState.FIRING:
            self._firing.add(identity)
            return None
        fired = identity in self._firing
        self._firing.discard(identity)
        known = self._begins_ms is not None and started_at_ms is not None and started_at_ms > self._begins_ms
        return f"{fields.get('rule')} {fields.get('subject')}" if known and not fired else None


_TIMES = ("started", "observed", "sent")


def ledger_alerts(checkpoint: Path) -> Iterator[SentAlert]:
    """Yields the alerts of a job's ledger, oldest first, each as recorded; none without a ledger.

    Raises:
        StoreError: the database cannot be read.
    """
    for one in AlertStore(job_database(checkpoint, read_only=True)).alerts():
        yield SentAlert(number=one.number, fields=to_object(one.alert, one.recorded_at_ms))


def jsonl_alerts(path: Path) -> Iterator[SentAlert]:
    """Yields the lines of a jsonl sink's file; a line that is not an object has no fields.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        for number, content in enumerate(file, start=1):
            try:
                fields = parse_json(content)
            except ValueError:
                fields = None
            yield SentAlert(number=number, fields=fields if isinstance(fields, dict) else {})


def _odd_fields(fields: Mapping[str, Any]) -> str | None:
    odd = [name for name, kind in FIELDS.items() if name not in fields or not isinstance(fields[name], kind)]
    return ", ".join([*odd, *(str(name)[:40] for name in fields if name not in FIELDS)]) or None


def _odd_remedy(remedy: object) -> str | None:
    steps: Sequence[object] = remedy if isinstance(remedy, list) else ()
    odd = (step for step in steps if not isinstance(step, str) or "\n" in step or _PLACEHOLDER.search(step))
    return next((str(step)[:200] for step in odd), None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: object) -> Millis | None:
    try:
        return from_iso(value) if isinstance(value, str) else None
    except (ValueError, TypeError):
        return None
