"""The type of plain data."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
    """A JSON value: evidence consists of these."""
else:
    # Libraries that read annotations (pydantic) cannot resolve an alias that names itself.
    Plain = Any
