"""What a test knows to be there."""

from typing import TypeVar

ValueT = TypeVar("ValueT")


def present(value: ValueT | None) -> ValueT:
    """Returns a value that is not None."""
    assert value is not None
    return value
