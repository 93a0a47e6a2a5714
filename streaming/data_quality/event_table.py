"""The table of events: what the rows of the journal decode to."""

import re
from collections.abc import Iterable

from connectors.observations.event import Event
from connectors.observations.log_event import (
    PartitionChanged,
    PartitionSet,
    RecordPosition,
    Undecodable,
    VotersReplaced,
)
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.observation_event import QuorumPolled
from rules.model.identifiers import DirectoryId
from streaming.data_quality.contract import Suite, Table

SKEW_MS = 86_400_000
"""How far a controller's clock may be ahead of the gatherer's before a timestamp is implausible: a day in ms."""
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
"""As Kafka prints it (org.apache.kafka.common.Uuid): 16 bytes in URL-safe base64 without padding."""
_Columns = dict[str, int | str | None]


class EventTable:
    """Each record of a row is compared with the one before it."""

    def __init__(self) -> None:
        self.table = Table(Suite.EVENTS)

    def add(self, row: Observation, events: Iterable[Event]) -> None:
        """Adds all events of one row."""
        before: RecordPosition | None = None
        for ordinal, event in enumerate(events):
            at: RecordPosition | None = getattr(event, "at", None)
            self.table.rows.append(
                {
                    "sequence": row.sequence,
                    "ordinal": ordinal,
                    "cluster": row.cluster,
                    **({} if at is None or at.snapshot else _placed(row, at, before)),
                    **_columns(event),
                }
            )
            before = before if at is None else at


def _columns(event: Event) -> _Columns:
    match event:
        case Undecodable(offset=offset, reason=reason):
            return {"undecodable": reason if offset is None else f"offset {offset}: {reason}"}
        case PartitionSet() | PartitionChanged():
            return _partition(event)
        case VotersReplaced(voters=voters):
            endpoints = (one for voter in voters for one in voter.endpoints)
            return {
                "malformed_directory_ids": _malformed(voter.key.directory_id for voter in voters),
                "impossible_endpoints": _text([one for one in endpoints if not one.host or not 0 < one.port < 2**16]),
            }
        case QuorumPolled():
            return _quorum(event)
        case _:
            return {}


def _quorum(event: QuorumPolled) -> _Columns:
    replicas = (*event.voters, *event.observers)
    leader = next((one for one in replicas if one.key.id == event.leader_id), None)
    return {
        "malformed_directory_ids": _malformed(one.key.directory_id for one in replicas),
        "voter_and_observer": _text({one.key for one in event.voters} & {one.key for one in event.observers}),
        "polled_high_watermark": event.high_watermark,
        "leader_log_end_offset": None if leader is None else leader.log_end_offset,
    }


def _placed(row: Observation, at: RecordPosition, before: RecordPosition | None) -> _Columns:
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


def _partition(event: PartitionSet | PartitionChanged) -> _Columns:
    replicas, isr, elr = event.replicas, event.isr, event.elr
    return {
        "topic_id": event.topic_id,
        "isr_outside_replicas": None if isr is None or replicas is None else _text({*isr} - {*replicas}),
        "in_isr_and_elr": _text({*(isr or ())} & {*(elr or ())}),
        "leader_outside_isr": None if event.leader is None or isr is None else _text({event.leader} - {*isr}),
    }


def _malformed(ids: Iterable[DirectoryId | None]) -> str | None:
    return _text({one[:40] for one in ids if one is not None and not _UUID.fullmatch(one)})


def _text(items: Iterable[object]) -> str | None:
    """Returns the first eight of some faulty values; None if there are none."""
    return ", ".join(sorted(map(str, items))[:8]) or None
