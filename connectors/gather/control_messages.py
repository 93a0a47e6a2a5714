"""What the job says to the gatherer by the leash, one line each: a wish, or what an audit found.

A wish: look at a cluster at a moment at which time alone would make a transition, because a hold or a clear ends.
A look made then is judged then; without it the transition waits for whatever is seen next, up to a second.

What an audit found is recorded like anything else that is seen, because only what stands in the journal is judged,
and judged the same when it is replayed.
"""

from dataclasses import dataclass
from typing import TypeAlias

from pydantic import TypeAdapter

from connectors.event import Audited


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Look at this cluster at this moment (the gatherer's clock), and publish what is seen at once."""

    cluster: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Record what an audit found in this cluster's rows."""

    cluster: str
    audited: Audited


Said: TypeAlias = Wish | Found

_JSON: TypeAdapter[Said] = TypeAdapter(Said)


def to_line(said: Said) -> bytes:
    """One line of JSON, line end included."""
    return _JSON.dump_json(said) + b"\n"


def from_line(line: bytes) -> Said:
    """What `to_line` wrote.

    Raises:
        pydantic.ValidationError: it is neither (a ValueError).
    """
    return _JSON.validate_json(line)
