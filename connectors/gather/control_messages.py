"""The messages that the job sends to the gatherer's stdin, one JSON line each: poll requests and audit results.

A poll request asks for a poll at the time at which a hold or clear duration ends. The poll's row causes an evaluation
at that time; without it, the transition waits for the next row, up to a second.

An audit result is written to the journal like every observation: rules evaluate only what the journal holds, so a
replay gives the same result.
"""

from dataclasses import dataclass
from typing import TypeAlias

from pydantic import TypeAdapter

from connectors.observations.observation_event import ObservationsAudited


@dataclass(frozen=True, slots=True, kw_only=True)
class PollRequest:
    """Poll this cluster at this time (the gatherer's clock), and publish the first row from then on at once."""

    cluster: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """Write the result of an audit of this cluster's rows to the journal."""

    cluster: str
    audited: ObservationsAudited


ControlMessage: TypeAlias = PollRequest | AuditResult

_JSON: TypeAdapter[ControlMessage] = TypeAdapter(ControlMessage)


def to_line(message: ControlMessage) -> bytes:
    """Returns the message as one line of JSON with its line end."""
    return _JSON.dump_json(message) + b"\n"


def from_line(line: bytes) -> ControlMessage:
    """Parses a line written by `to_line`.

    Raises:
        pydantic.ValidationError: the line is not a control message (a ValueError).
    """
    return _JSON.validate_json(line)
