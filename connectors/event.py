"""Event: the closed union of decoded events that replay applies, and its JSON form."""

from typing import Annotated, TypeAlias

from pydantic import Field, TypeAdapter

from connectors.log_event import LogEvent
from connectors.observation_event import (
    EndpointProbed,
    LeaderViewPolled,
    ObservationFailed,
    ObservationsAudited,
    QuorumPolled,
)

Event: TypeAlias = LogEvent | QuorumPolled | EndpointProbed | LeaderViewPolled | ObservationFailed | ObservationsAudited

_JSON: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def to_json(event: Event) -> bytes:
    """One event as one JSON object in UTF-8: what probes, polls and failed looks are recorded as."""
    return _JSON.dump_json(event)


def from_json(payload: bytes | str) -> Event:
    """The event that `to_json` wrote.

    Raises:
        pydantic.ValidationError: the payload is no event (a ValueError).
    """
    return _JSON.validate_json(payload)
