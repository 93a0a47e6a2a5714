"""Errors of a validator about one value of a section: each names the key of that value, so that its line is found."""

from pydantic_core import PydanticCustomError

PLACED = "placed"
"""The type of these errors among pydantic's own ones."""


def placed_error(sentence: str, *keys: str | int) -> PydanticCustomError:
    """Returns an error for a validator to raise.

    Args:
        sentence: what is wrong and what to do, without the key.
        keys: from the section that is validated to the value.
    """
    return PydanticCustomError(PLACED, "{sentence}", {"sentence": sentence, "keys": list(keys)})
