"""A fact of an object: computed when it is first read, and kept."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_OwnerT = TypeVar("_OwnerT")
_FactT = TypeVar("_FactT")


class Fact(Generic[_OwnerT, _FactT]):
    """A cached property of one expression, without the lock that functools takes before Python 3.12."""

    def __init__(self, compute: Callable[[_OwnerT], _FactT]) -> None:
        self._compute = compute
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type) -> "Fact[_OwnerT, _FactT]": ...

    @overload
    def __get__(self, of: object, owner: type) -> _FactT: ...

    def __get__(self, of: Any, owner: type) -> Any:
        if of is None:
            return self
        # It has no __set__: from now on the value is found in the object before this descriptor.
        found = of.__dict__[self._name] = self._compute(of)
        return found
