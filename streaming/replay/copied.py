"""Makes a dataclass of an object that has the same fields."""

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CopyT = TypeVar("CopyT", bound="DataclassInstance")


def copied(kind: type[CopyT], one: object, **others: Any) -> CopyT:
    """Returns a dataclass whose fields are those of the object under the same names, and the others."""
    return kind(**others, **{each.name: getattr(one, each.name) for each in fields(kind) if each.name not in others})
