"""The rows of the three suites: observations as the gatherer recorded them, what they decode to, and sent alerts.

A row has the columns that `contracts.yaml` names. A column whose text would name a fault is empty if there is none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from connectors.alert_json import to_object
from connectors.gather.commit_buffer import BUFFER_BYTES_MAX
from connectors.gather.log_follower import MAX_BYTES
from connectors.metadata.redaction import redact
from connectors.observations.log_event import PartitionChanged, PartitionSet, Undecodable, VotersReplaced
from connectors.observations.observation import EVENT_OF_KIND, Event, Observation, ObservationKind, event_type
from connectors.store.alert_store import AlertStore
from connectors.store.store_place import StorePlace
from connectors.store.stored_json import parse_json
from connectors.store.tables import job_database
from rules.alert import AlertState, fingerprint
from rules.evaluate import ALL_RULES
from rules.formatting import from_iso
from rules.model.identifiers import DirectoryId, Millis
from rules.model.membership import RecordPosition
from rules.model.monitoring import FailedObservation, Reason
from rules.model.quorum import Poll

JOURNAL = "(journal)"
"""Stands for the cluster of a row that cannot be read."""
ROW_KEYS: Mapping[str, tuple[str, ...]] = {
    "observations": ("cluster", "sequence"),
    "events": ("cluster", "sequence", "ordinal"),
    "alerts": ("cluster", "line"),
}
"""The suites, and the columns that identify a row of each: the name of the cluster, and numbers."""
Row: TypeAlias = Mapping[str, int | str | None]
"""The columns of a row; one that is left out is empty."""
PAYLOAD_BYTES_MAX = BUFFER_BYTES_MAX + MAX_BYTES
"""One row may contain everything that waited for the high watermark, and the answer that advanced it."""
_LOG_RESTARTED = (Reason.METADATA_LOST, Reason.RECORDS_KNOWN, Reason.TASK_FAILED, Reason.INTERRUPTED)
"""After these failures the log may be read again from its start."""
SKEW_MS = 86_400_000
"""How far a controller's clock may be ahead of the gatherer's before a timestamp is implausible: a day in ms."""
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
"""As Kafka prints it (org.apache.kafka.common.Uuid): 16 bytes in URL-safe base64 without padding."""
CLOCK_SKEW_MS = 300_000
"""How far the gatherer's clock, which never goes back, may be ahead of the driver's (ms)."""
FIELDS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("cluster", "cluster_id", "rule", "subject", "severity", "state", "summary", "fingerprint"), str),
    **dict.fromkeys(("started_at", "observed_at", "sent_at"), str),
    "evidence": dict,
    "remedy": list,
    "offset": (int, type(None)),
    "late_ms": int,
}
"""The fields of an alert and the type of each: `connectors.alert_json` and docs/alert.schema.json."""
_OPTIONAL = {"late_ms"}
_PLACEHOLDER = re.compile(r"\$(?!BOOTSTRAP\b|NODE_PROPERTIES\b)\{?[A-Z_]{3,}")


@dataclass(slots=True)
class _FormerRows:
    """State of the former rows of one cluster."""

    observed_at_ms: int | None = None
    next_offset: int | None = None
    log_epoch: int | None = None
    snapshot: tuple[int | None, int | None] | None = None
    pieces: int = 0


class ObservationRows:
    """Rows of observations: each is compared with the former ones of its cluster."""

    def __init__(self) -> None:
        self._before: dict[str, _FormerRows] = {}

    def row(self, row: Observation, first: Event | None) -> Row:
        """Returns the row of an observation; `first` is the first event that it decodes to."""
        before = self._before.setdefault(row.cluster, _FormerRows())
        if isinstance(first, FailedObservation) and first.reason in _LOG_RESTARTED:
            before.next_offset = before.log_epoch = None
        previous_ms, before.observed_at_ms = before.observed_at_ms, row.observed_at_ms
        size = len(row.payload)
        wanted = EVENT_OF_KIND.get(row.kind)
        misfiled = wanted is not None and not isinstance(first, wanted | Undecodable)
        return {
            "sequence": row.sequence,
            "cluster": row.cluster or None,
            "observed_at_ms": row.observed_at_ms,
            "previous_observed_at_ms": previous_ms,
            "high_watermark": row.high_watermark,
            "oversized_payload": f"{size} bytes" if size > PAYLOAD_BYTES_MAX else None,
            "unblanked": _unblanked(row),
            "misfiled": ("nothing" if first is None else event_type(first)) if misfiled else None,
            **_of_the_log(row, before),
        }

    def logs_read_again(self) -> None:
        """Forgets how far each cluster's log was read: a repair had all logs read again from their start."""
        for before in self._before.values():
            before.next_offset = before.log_epoch = before.snapshot = None


def _unblanked(row: Observation) -> str | None:
    """Returns that a value is not blanked, never the value itself."""
    of_the_log = row.kind in (ObservationKind.RECORDS, ObservationKind.SNAPSHOT)
    if not of_the_log or redact(row.payload) == row.payload:
        return None
    return f"a record behind offset {row.base_offset} has a value that must be blanked"


def _of_the_log(row: Observation, before: _FormerRows) -> Row:
    """Returns the columns of a row of the log and updates `before`."""
    if row.kind is ObservationKind.SNAPSHOT:
        snapshot = (row.base_offset, row.leader_epoch)
        # A restarted snapshot begins with piece 0, even if it is the same snapshot.
        goes_on = snapshot == before.snapshot and row.last_offset != 0
        expected: int | None = before.pieces if goes_on else 0
        if before.snapshot is None and before.next_offset is None:
            # The first row of the log in a sample, which may begin in the middle of a snapshot.
            expected = None
        before.snapshot, before.pieces = snapshot, (row.last_offset or 0) + 1
        before.next_offset, before.log_epoch = row.base_offset, row.leader_epoch
        return {"piece": row.last_offset, "expected_piece": expected}
    if row.kind is not ObservationKind.RECORDS or row.base_offset is None or row.last_offset is None:
        return {}
    epoch = row.leader_epoch if row.payload else None
    columns = {
        "base_offset_of_log": row.base_offset,
        "end_offset": row.last_offset + 1,
        "next_offset": before.next_offset,
        "log_epoch": epoch,
        "previous_log_epoch": before.log_epoch,
    }
    before.next_offset = row.last_offset + 1
    before.log_epoch = before.log_epoch if epoch is None else epoch
    return columns


def event_rows(row: Observation, events: Iterable[Event]) -> Iterator[Row]:
    """Yields the rows of an observation's events: each record is compared with the one before it."""
    before: RecordPosition | None = None
    for ordinal, event in enumerate(events):
        at: RecordPosition | None = getattr(event, "at", None)
        placed = {} if at is None or at.snapshot else _placed(row, at, before)
        yield {"sequence": row.sequence, "ordinal": ordinal, "cluster": row.cluster, **placed, **_columns(event)}
        before = before if at is None else at


def _placed(row: Observation, at: RecordPosition, before: RecordPosition | None) -> Row:
    """Returns a record's position in the log and the bounds of that position."""
    base, last = row.base_offset, row.last_offset
    within = row.kind is not ObservationKind.RECORDS or base is None or last is None or base <= at.offset <= last
    return {
        "offset": at.offset,
        "lowest_offset": None if before is None else before.offset + 1,
        "leader_epoch": at.leader_epoch,
        "previous_leader_epoch": None if before is None else before.leader_epoch,
        "timestamp_ms": at.timestamp_ms,
        "latest_timestamp_ms": row.observed_at_ms + SKEW_MS,
        "outside_its_row": None if within else f"offset {at.offset} in a row from {base} to {last}",
    }


def _columns(event: Event) -> Row:
    match event:
        case Undecodable(offset=offset, reason=reason):
            return {"undecodable": reason if offset is None else f"offset {offset}: {reason}"}
        case PartitionSet() | PartitionChanged():
            replicas, isr, elr = event.replicas, event.isr, event.elr
            return {
                "topic_id": event.topic_id,
                "isr_outside_replicas": None if isr is None or replicas is None else _text({*isr} - {*replicas}),
                "in_isr_and_elr": _text({*(isr or ())} & {*(elr or ())}),
                "leader_outside_isr": None if event.leader is None or isr is None else _text({event.leader} - {*isr}),
            }
        case VotersReplaced(voters=voters):
            endpoints = (one for voter in voters for one in voter.endpoints)
            return {
                "malformed_directory_ids": _malformed(voter.key.directory_id for voter in voters),
                "impossible_endpoints": _text(one for one in endpoints if not one.host or not 0 < one.port < 2**16),
            }
        case Poll():
            replicas_polled = (*event.voters, *event.observers)
            leader = next((one for one in replicas_polled if one.key.id == event.leader_id), None)
            return {
                "malformed_directory_ids": _malformed(one.key.directory_id for one in replicas_polled),
                "voter_and_observer": _text({one.key for one in event.voters} & {one.key for one in event.observers}),
                "polled_high_watermark": event.high_watermark,
                "leader_log_end_offset": None if leader is None else leader.log_end_offset,
            }
        case _:
            return {}


def _malformed(ids: Iterable[DirectoryId | None]) -> str | None:
    return _text({one[:40] for one in ids if one is not None and not _UUID.fullmatch(one)})


def _text(items: Iterable[object]) -> str | None:
    """Returns the first eight of some faulty values; None if there are none."""
    return ", ".join(sorted(map(str, items))[:8]) or None


class AlertRows:
    """Rows of sent alerts: a resolved alert is compared with former firing ones."""

    def __init__(self) -> None:
        self._begins_ms: int | None = None
        """When the first of the alerts was sent: an alert that started earlier may have fired before."""
        self._firing: set[str] = set()

    def row(self, number: int, fields: Mapping[str, Any]) -> Row:
        """Returns the row of the alert with this number: that of its entry in the ledger, or of its line in a file."""
        started_at_ms, observed_at_ms, sent_at_ms = (
            _time(fields.get(name)) for name in ("started_at", "observed_at", "sent_at")
        )
        self._begins_ms = sent_at_ms if self._begins_ms is None else self._begins_ms
        rule = fields.get("rule")
        texts = {name: fields.get(name) for name in ("cluster", "severity", "state", "summary", "fingerprint")}
        return {
            "line": number,
            **{name: text if isinstance(text, str) and text else None for name, text in texts.items()},
            "unknown_rule": None if rule is None or str(rule) in ALL_RULES else str(rule)[:80],
            "expected_fingerprint": fingerprint(str(fields.get("cluster_id")), str(rule), str(fields.get("subject"))),
            "started_at_ms": started_at_ms,
            "observed_at_ms": observed_at_ms,
            "latest_observed_at_ms": None if sent_at_ms is None else sent_at_ms + CLOCK_SKEW_MS,
            "odd_fields": _odd_fields(fields),
            "odd_remedy": _odd_remedy(fields.get("remedy")),
            "resolved_without_firing": self._resolved_without_firing(fields, started_at_ms),
        }

    def _resolved_without_firing(self, fields: Mapping[str, Any], started_at_ms: int | None) -> str | None:
        identity = str(fields.get("fingerprint"))
        if fields.get("state") == AlertState.FIRING:
            self._firing.add(identity)
            return None
        fired = identity in self._firing
        self._firing.discard(identity)
        known = self._begins_ms is not None and started_at_ms is not None and started_at_ms > self._begins_ms
        return f"{fields.get('rule')} {fields.get('subject')}" if known and not fired else None


def _odd_fields(fields: Mapping[str, Any]) -> str | None:
    wanted = ((name, kind) for name, kind in FIELDS.items() if name in fields or name not in _OPTIONAL)
    odd = [name for name, kind in wanted if name not in fields or not isinstance(fields[name], kind)]
    return ", ".join([*odd, *(str(name)[:40] for name in fields if name not in FIELDS)]) or None


def _odd_remedy(remedy: object) -> str | None:
    steps = remedy if isinstance(remedy, list) else ()
    odd = (step for step in steps if not isinstance(step, str) or "\n" in step or _PLACEHOLDER.search(step))
    return next((str(step)[:200] for step in odd), None)


def _time(value: object) -> Millis | None:
    try:
        return from_iso(value) if isinstance(value, str) else None
    except (ValueError, TypeError):
        return None


def ledger_alerts(store: StorePlace) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the alerts of a job's ledger, oldest first, by number, each as recorded; none without a ledger."""
    for one in AlertStore(job_database(store, read_only=True)).alerts():
        yield one.number, to_object(one.alert, one.recorded_at_ms)


def jsonl_alerts(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the lines of a jsonl sink's file by number; a line that is not an object has no fields."""
    with path.open("rb") as file:
        for number, content in enumerate(file, start=1):
            try:
                fields = parse_json(content)
            except ValueError:
                fields = None
            yield number, fields if isinstance(fields, dict) else {}
