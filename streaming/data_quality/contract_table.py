"""A table: rows of plain values under named columns, as Great Expectations takes them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from rules.model.identifiers import DirectoryId, Endpoint
from streaming.data_quality.contract import UUID

_WELL_FORMED = re.compile(UUID)
_PORTS = range(1, 65_536)


class Table:
    """A growing table. Every column is a whole number or a text; what is not there is None."""

    def __init__(self, *, numbers: Sequence[str], texts: Sequence[str]) -> None:
        self._numbers = frozenset(numbers)
        self._columns: dict[str, list[Any]] = {name: [] for name in (*numbers, *texts)}
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, row: Mapping[str, int | str | None]) -> None:
        """One more row; columns that it does not name stay empty."""
        for name, values in self._columns.items():
            values.append(row.get(name))
        self._rows += 1

    def frame(self) -> pd.DataFrame:
        """As pandas: numbers as integers that may be missing."""
        return pd.DataFrame(
            {
                name: pd.array(values, dtype="Int64") if name in self._numbers else pd.Series(values, dtype="object")
                for name, values in self._columns.items()
            }
        )

    def clear(self) -> None:
        """Begin anew."""
        for values in self._columns.values():
            values.clear()
        self._rows = 0


def outside(members: Iterable[int] | None, whole: Iterable[int] | None) -> str | None:
    """The members that are not in the whole, in words; None when there are none, or one of the two is not told."""
    return None if members is None or whole is None else _said(sorted(set(members) - set(whole)))


def shared(one: Iterable[int] | None, other: Iterable[int] | None) -> str | None:
    """What is in both, in words."""
    return None if one is None or other is None else _said(sorted(set(one) & set(other)))


def repeated(members: Sequence[int] | None) -> str | None:
    """What stands there more than once, in words."""
    if members is None or len(members) == len(set(members)):
        return None
    return _said(sorted({one for one in members if members.count(one) > 1}))


def impossible(ids: Iterable[int | None]) -> str | None:
    """The ids that no node has (`node.id` is at least 0), in words."""
    return _said(sorted({one for one in ids if one is not None and one < 0}))


def malformed(ids: Iterable[DirectoryId | str | None]) -> str | None:
    """The UUIDs that are none, in words."""
    return _said(sorted({one[:40] for one in ids if one is not None and not _WELL_FORMED.fullmatch(one)}))


def undialable(endpoints: Iterable[Endpoint]) -> str | None:
    """The endpoints that nobody can dial, in words."""
    return _said([one for one in endpoints if not one.host or one.port not in _PORTS])


def _said(items: Sequence[object]) -> str | None:
    return ", ".join(map(str, items[:8])) or None
