"""Event: the closed union of decoded events that replay applies, and its JSON form."""

from typing import Annotated, TypeAlias

from pydantic import Field, TypeAdapter

from connectors.observations.log_event import LogEvent
from connectors.observations.observation_event import ObservationEvent

Event: TypeAlias = LogEvent | ObservationEvent

_JSON: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="type")])


def to_json(event: Event) -> bytes:
    """Returns one event as one JSON object in UTF-8, the stored form of polls, probes, failures and audits."""
    return _JSON.dump_json(event)


def from_json(payload: bytes | str) -> Event:
    """Returns the event that `to_json` wrote.

    Raises:
        pydantic.ValidationError: the payload is not an event (a ValueError).
    """
    return _JSON.validate_json(payload)
