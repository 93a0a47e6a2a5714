"""What is computed once for each quorum: many tests ask the same of the same one."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from rules.model.quorum import Quorum

_ResultT = TypeVar("_ResultT")


def once_for_each_quorum(compute: Callable[[Quorum], _ResultT]) -> Callable[[Quorum], _ResultT]:
    """Keeps the result for each object: a quorum has mappings in it, which have no hash."""
    kept: dict[int, tuple[Quorum, _ResultT]] = {}

    @wraps(compute)
    def of(quorum: Quorum) -> _ResultT:
        if id(quorum) not in kept:
            kept[id(quorum)] = (quorum, compute(quorum))
        return kept[id(quorum)][1]

    return of
