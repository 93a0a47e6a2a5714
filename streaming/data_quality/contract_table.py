"""A table: rows of plain values in named columns, as Great Expectations takes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rules.model.identifiers import DirectoryId, Endpoint
from streaming.data_quality.contract import UUID

_WELL_FORMED = re.compile(UUID)
_PORTS = range(1, 65_536)


class Table:
    """A growing table. Every column has integers or texts; None is a missing value."""

    def __init__(self, *, numbers: Sequence[str], texts: Sequence[str]) -> None:
        self._numbers = frozenset(numbers)
        self._columns: dict[str, list[Any]] = {name: [] for name in (*numbers, *texts)}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, row: Mapping[str, int | str | None]) -> None:
        """Adds a row; columns that it does not name stay empty."""
        for name, values in self._columns.items():
            values.append(row.get(name))
        self._rows += 1

    def frame(self) -> pd.DataFrame:
        """Returns a pandas frame with nullable integers."""
        return pd.DataFrame(
            {
                name: pd.array(values, dtype="Int64") if name in self._numbers else pd.Series(values, dtype="object")
                for name, values in self._columns.items()
            }
        )

    def clear(self) -> None:
        """Removes all rows."""
        for values in self._columns.values():
            values.clear()
        self._rows = 0


def outside(members: Iterable[int] | None, whole: Iterable[int] | None) -> str | None:
    """Returns the members that are not in the whole, as text; None if there are none or a set is unknown."""
    return None if members is None or whole is None else _as_text(sorted(set(members) - set(whole)))


def shared(one: Iterable[int] | None, other: Iterable[int] | None) -> str | None:
    """Returns the members of both sets, as text."""
    return None if one is None or other is None else _as_text(sorted(set(one) & set(other)))


def repeated(members: Sequence[int] | None) -> str | None:
    """Returns the members that occur more than once, as text."""
    if members is None or len(members) == len(set(members)):
        return None
    return _as_text(sorted({one for one in members if members.count(one) > 1}))


def negative(ids: Iterable[int | None]) -> str | None:
    """Returns the ids below 0, as text: `node.id` is at least 0."""
    return _as_text(sorted({one for one in ids if one is not None and one < 0}))


def malformed(ids: Iterable[DirectoryId | str | None]) -> str | None:
    """Returns the invalid UUIDs, as text."""
    return _as_text(sorted({one[:40] for one in ids if one is not None and not _WELL_FORMED.fullmatch(one)}))


def invalid_endpoints(endpoints: Iterable[Endpoint]) -> str | None:
    """Returns the endpoints without a host or with an invalid port, as text."""
    return _as_text([one for one in endpoints if not one.host or one.port not in _PORTS])


def _as_text(items: Sequence[object]) -> str | None:
    return ", ".join(map(str, items[:8])) or None
