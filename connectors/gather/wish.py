"""A wish: the job asks the gatherer to look at a cluster at a certain moment, by the leash, one line each.

The moment is one at which time alone would make a transition: a hold or a clear ends. A look made then is judged
then; without it the transition waits for whatever is seen next, up to a second.
"""

from dataclasses import dataclass

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Look at this cluster at this moment (the gatherer's clock), and publish what is seen at once."""

    cluster: str
    at_ms: int


_JSON = TypeAdapter(Wish)


def wish_to_line(wish: Wish) -> bytes:
    """One line of JSON, line end included."""
    return _JSON.dump_json(wish) + b"\n"


def wish_from_line(line: bytes) -> Wish:
    """What `wish_to_line` wrote.

    Raises:
        pydantic.ValidationError: it is no wish (a ValueError).
    """
    return _JSON.validate_json(line)
