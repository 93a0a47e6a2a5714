"""Observation: one row that the gatherer records, the same in the journal and in Spark, and the events in rows.

`payload` by kind:

- `records`: record batches as received from the controller, whole batches, all committed, with
  credential-bearing values already redacted. `base_offset`..`last_offset` is the range they cover
  (`last_offset` = `base_offset` - 1 and an empty payload: a leader answered and had no new records).
- `snapshot`: one batch-aligned piece of a `.checkpoint`; `base_offset` = the snapshot's end offset,
  `leader_epoch` = the snapshot's epoch, `last_offset` = the piece's number, counted from 0.
- all others: `to_json` of the event in `EVENT_OF_KIND`, without its times: they are those of observations.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache, partial
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, Union, get_args

from connectors.observations.log_event import LOG_EVENT_TYPES, LogEvent
from rules.model.monitoring import FailedObservation, LeaderView, Probe
from rules.model.replica import Poll
from rules.model.witness import WitnessRow

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class ObservationKind(StrEnum):
    """What an observation holds. The values and their order are stored: a new kind is the last."""

    RECORDS = "records"
    SNAPSHOT = "snapshot"
    QUORUM = "quorum"
    PROBE = "probe"
    FAILED = "failed"
    VIEW = "view"
    WITNESS = "witness"


class Urgency(IntEnum):
    """How soon a row must be evaluated. The values are stored."""

    REGULAR = 0
    """Within a second."""
    QUIET = 1
    """It shows nothing new but that time passes: alone, it begins no condition."""
    URGENT = 2
    """At once: it shows a change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One row. The rows of one cluster are totally ordered by `sequence`, which the journal writer assigns."""

    cluster: str
    """The cluster's name in the configuration."""
    kind: ObservationKind
    observed_at_ms: int
    """The gatherer's clock, milliseconds since the Unix epoch. Never decreases within a cluster."""
    base_offset: int | None = None
    last_offset: int | None = None
    leader_epoch: int | None = None
    high_watermark: int | None = None
    payload: bytes = b""
    sequence: int = -1
    """Position in the journal; -1 until recorded."""
    urgency: Urgency = Urgency.REGULAR


_KINDS = tuple(ObservationKind)
_NUMBERS = ("base_offset", "last_offset", "leader_epoch", "high_watermark")
_HEADER = Struct(">qqBB4qH")
"""Sequence, time, kind, flags, the numbers, and the length of the cluster's name. The name and the payload follow.
The flags are a bit for each number that is present, and the urgency in the bits above."""


def packed(row: Observation) -> bytes:
    """Returns a row as bytes: for Spark, and for a relay's topic."""
    numbers = row.base_offset, row.last_offset, row.leader_epoch, row.high_watermark
    flags = sum(1 << at for at, number in enumerate(numbers) if number is not None) | row.urgency << len(_NUMBERS)
    name = row.cluster.encode()
    header = row.sequence, row.observed_at_ms, _KINDS.index(row.kind), flags
    return _HEADER.pack(*header, *(number or 0 for number in numbers), len(name)) + name + row.payload


def unpacked(value: bytes) -> Observation:
    """Returns the row that `packed` wrote.

    Raises:
        struct.error, IndexError, ValueError: it did not write this.
    """
    sequence, observed_at_ms, kind, flags, *numbers, length = _HEADER.unpack_from(value)
    payload = _HEADER.size + length
    return Observation(
        cluster=value[_HEADER.size : payload].decode(),
        kind=_KINDS[kind],
        observed_at_ms=observed_at_ms,
        payload=value[payload:],
        sequence=sequence,
        urgency=Urgency(flags >> len(_NUMBERS)),
        **{name: number for at, (name, number) in enumerate(zip(_NUMBERS, numbers, strict=True)) if flags >> at & 1},
    )


ObservationEvent: TypeAlias = Poll | Probe | LeaderView | FailedObservation | WitnessRow
"""What an observation holds that is not of the metadata log."""

EVENT_OF_KIND: Mapping[ObservationKind, type[ObservationEvent]] = {
    ObservationKind.QUORUM: Poll,
    ObservationKind.PROBE: Probe,
    ObservationKind.VIEW: LeaderView,
    ObservationKind.FAILED: FailedObservation,
    ObservationKind.WITNESS: WitnessRow,
}
"""The register of these kinds: the payload of such an observation is the JSON form of its event."""


Event: TypeAlias = LogEvent | ObservationEvent
"""What replay applies."""


SET_BY_REPLAY = frozenset(
    {
        *("observed_at_ms", "since_ms", "first_at_ms", "last_at_ms", "returned_at_ms"),
        *("alive_since_timestamp_ms", "features_since_timestamp_ms"),
        *("former_reason", "newest_certificate", "certificate_since_ms", "denied_by", "starting"),
        "processes_at_ms",
    }
)
"""Fields of events that the replay sets, by when they were observed and what was before: no event is stored with them.
"""
_NOT_STORED: dict[str, Any] = dict.fromkeys(SET_BY_REPLAY, True)


_TYPES: Final[Mapping[type, str]] = {
    **LOG_EVENT_TYPES,
    Poll: "quorum-polled",
    Probe: "endpoint-probed",
    LeaderView: "leader-view-polled",
    FailedObservation: "observation-failed",
    WitnessRow: "host-witnessed",
}
"""The names that events have in JSON and in DataFrames: no event knows how it is stored."""


TYPE_OF_KIND: Final[Mapping[ObservationKind, str]] = {kind: _TYPES[event] for kind, event in EVENT_OF_KIND.items()}


def event_type(event: Event) -> str:
    """Returns the name of an event's type."""
    return _TYPES[type(event)]


def _tagged(union: Any) -> Any:
    """Returns a union of events for pydantic, which in JSON have the name of their type as `type`."""
    # Not every command that names an observation reads one: pydantic takes 0.2 s to load.
    from pydantic import Discriminator, Tag, WrapSerializer

    events = [
        Annotated[each, WrapSerializer(partial(_with_type, _TYPES[each])), Tag(_TYPES[each])]
        for each in get_args(union)
    ]
    return Annotated[Union[tuple(events)], Discriminator(_type_name)]  # noqa: UP007 - of a tuple


def _with_type(name: str, event: Event, fields: Callable[[Event], dict[str, Any]]) -> dict[str, Any]:
    return {**fields(event), "type": name}


def _type_name(value: Any) -> Any:
    return value.get("type") if isinstance(value, dict) else _TYPES.get(type(value))


def list_json(union: Any) -> "TypeAdapter[list[Any]]":
    """Returns pydantic's adapter of lists of the events of a union."""
    from pydantic import TypeAdapter

    any_list: Any = list
    return TypeAdapter(any_list[_tagged(union)])


@cache
def _event_json() -> "TypeAdapter[Event]":
    from pydantic import TypeAdapter

    return TypeAdapter(_tagged(Event))


def to_json(event: Event) -> bytes:
    """Returns one event as one JSON object in UTF-8, the stored form of polls, probes and failures."""
    return _event_json().dump_json(event, exclude=_NOT_STORED)


def from_json(payload: bytes | str) -> Event:
    """Returns the event that `to_json` wrote.

    Raises:
        pydantic.ValidationError: the payload is not an event (a ValueError).
    """
    return _event_json().validate_json(payload)
