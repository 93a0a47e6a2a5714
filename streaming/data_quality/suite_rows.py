"""The rows of the three suites: observations as the gatherer recorded them, what they decode to, and sent alerts.

A row has the columns that `contracts.yaml` names. Sets are texts: sorted, with a space between.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

from connectors.gather.commit_buffer import BUFFER_BYTES_MAX
from connectors.gather.log_follower import MAX_BYTES
from connectors.metadata.redaction import redact
from connectors.observations.log_event import PartitionChanged, PartitionSet, Undecodable, VotersReplaced
from connectors.observations.observation import TYPE_OF_KIND, Event, Observation, ObservationKind, event_type
from connectors.sinks.alert_json import compact_json, to_object
from connectors.store.alert_store import AlertStore
from connectors.store.store_place import StorePlace
from connectors.store.stored_json import json_safe, parse_json
from connectors.store.tables import job_database
from rules.alert import AlertState, fingerprint
from rules.formatting import from_iso
from rules.model.identifiers import Millis, ReplicaKey
from rules.model.membership import RecordPosition
from rules.model.monitoring import FailedObservation, Reason
from rules.model.replica import Poll

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
CLOCK_SKEW_MS = 300_000
"""How far the gatherer's clock, which never goes back, may be ahead of the driver's (ms)."""


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
        undecodable = isinstance(first, Undecodable)
        return {
            "sequence": row.sequence,
            "cluster": row.cluster or None,
            "observed_at_ms": row.observed_at_ms,
            "previous_observed_at_ms": previous_ms,
            "high_watermark": row.high_watermark,
            "payload_bytes": len(row.payload),
            "event": None if undecodable else "none" if first is None else event_type(first),
            "event_of_kind": TYPE_OF_KIND.get(row.kind),
            **_digests(row),
            **_of_the_log(row, before),
        }

    def logs_read_again(self) -> None:
        """Forgets how far each cluster's log was read: a repair had all logs read again from their start."""
        for before in self._before.values():
            before.next_offset = before.log_epoch = before.snapshot = None


def _digests(row: Observation) -> Row:
    """Returns digests of a payload of the log, and of what it would be with all values blanked: never a value."""
    if row.kind not in (ObservationKind.RECORDS, ObservationKind.SNAPSHOT):
        return {}
    return {"payload_digest": _digest(row.payload), "blanked_digest": _digest(redact(row.payload))}


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=8).hexdigest()


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
    of_the_log = row.kind is ObservationKind.RECORDS
    return {
        "offset": at.offset,
        "base_offset": row.base_offset if of_the_log else None,
        "last_offset": row.last_offset if of_the_log else None,
        "previous_offset": None if before is None else before.offset,
        "leader_epoch": at.leader_epoch,
        "previous_leader_epoch": None if before is None else before.leader_epoch,
        "timestamp_ms": at.timestamp_ms,
        "latest_timestamp_ms": row.observed_at_ms + SKEW_MS,
    }


def _columns(event: Event) -> Row:
    match event:
        case Undecodable(offset=offset, reason=reason):
            return {"undecodable_reason": reason if offset is None else f"offset {offset}: {reason}"}
        case PartitionSet() | PartitionChanged():
            return {"topic_id": event.topic_id, **_replicas(event)}
        case VotersReplaced(voters=voters):
            endpoints = (endpoint for voter in voters for endpoint in voter.endpoints)
            return {
                "directory_ids": _directory_ids(voter.key for voter in voters),
                "endpoints": _text(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints),
            }
        case Poll():
            voting, observing = ({replica.key for replica in each} for each in (event.voters, event.observers))
            polled = (*event.voters, *event.observers)
            leader = next((replica for replica in polled if replica.key.id == event.leader_id), None)
            return {
                "directory_ids": _directory_ids(replica.key for replica in polled),
                "observers": _text(observing),
                "observers_without_voters": _text(observing - voting),
                "polled_high_watermark": event.high_watermark,
                "leader_log_end_offset": None if leader is None else leader.log_end_offset,
            }
        case _:
            return {}


def _replicas(event: PartitionSet | PartitionChanged) -> Row:
    """Returns the sets of a partition's replicas; what a record does not change is not compared."""
    columns: dict[str, str | None] = {}
    if event.isr is not None:
        isr = {*event.isr}
        columns["isr"] = _text(isr)
        columns["isr_within_replicas"] = None if event.replicas is None else _text(isr & {*event.replicas})
        columns["isr_with_leader"] = None if event.leader is None else _text(isr | {event.leader})
        if event.elr is not None:
            columns |= {"elr": _text({*event.elr}), "elr_without_isr": _text({*event.elr} - isr)}
    return columns


def _directory_ids(keys: Iterable[ReplicaKey]) -> str | None:
    return _text({key.directory_id for key in keys if key.directory_id is not None}) or None


def _text(items: Iterable[object]) -> str:
    return " ".join(sorted(map(str, items)))


class AlertRows:
    """Rows of sent alerts: a resolved alert is compared with former firing ones."""

    def __init__(self) -> None:
        self._begins_ms: int | None = None
        """When the first of the alerts was sent: an alert that started earlier may have fired before."""
        self._fired: dict[str, int] = {}
        """How often each firing alert was sent as firing."""

    def row(self, number: int, fields: Mapping[str, Any]) -> Row:
        """Returns the row of the alert with this number: that of its entry in the ledger, or of its line in a file."""
        started_at_ms, observed_at_ms, sent_at_ms = (
            _time(fields.get(name)) for name in ("started_at", "observed_at", "sent_at")
        )
        self._begins_ms = sent_at_ms if self._begins_ms is None else self._begins_ms
        safe = json_safe(fields)
        names = ("cluster", "severity", "state", "summary", "rule", "fingerprint")
        return {
            "line": number,
            **{name: text for name in names if isinstance(text := fields.get(name), str) and text},
            "alert": compact_json(safe).decode(),
            "expected_fingerprint": _expected(fields),
            "started_at_ms": started_at_ms,
            "observed_at_ms": observed_at_ms,
            "latest_observed_at_ms": None if sent_at_ms is None else sent_at_ms + CLOCK_SKEW_MS,
            "remedy": compact_json(safe.get("remedy")).decode(),
            "fired_before": self._fired_before(fields, started_at_ms),
        }

    def _fired_before(self, fields: Mapping[str, Any], started_at_ms: int | None) -> int | None:
        """Returns how often a resolved alert fired before; None of others, and if it may have before the first one."""
        identity = str(fields.get("fingerprint"))
        if fields.get("state") == AlertState.FIRING:
            self._fired[identity] = self._fired.get(identity, 0) + 1
            return None
        fired = self._fired.pop(identity, 0)
        known = self._begins_ms is not None and started_at_ms is not None and started_at_ms > self._begins_ms
        return fired if fired or known else None


def _expected(fields: Mapping[str, Any]) -> str:
    """Returns the fingerprint that the alert must have: that of a former version, if it has that one."""
    cluster, *rest = (str(fields.get(name)) for name in ("cluster", "cluster_id", "rule", "subject"))
    former = fingerprint(None, *rest)
    return former if fields.get("fingerprint") == former else fingerprint(cluster, *rest)


def _time(value: object) -> Millis | None:
    try:
        return from_iso(value) if isinstance(value, str) else None
    except (ValueError, TypeError):
        return None


def ledger_alerts(store: StorePlace) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the alerts of a job's ledger, oldest first, by number, each as recorded; none without a ledger."""
    for alert in AlertStore(job_database(store, read_only=True)).alerts():
        yield alert.number, to_object(alert.alert, alert.recorded_at_ms)


def jsonl_alerts(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yields the lines of a jsonl sink's file by number; a line that is not an object has no fields."""
    with path.open("rb") as file:
        for number, content in enumerate(file, start=1):
            try:
                fields = parse_json(content)
            except ValueError:
                fields = None
            yield number, fields if isinstance(fields, dict) else {}
