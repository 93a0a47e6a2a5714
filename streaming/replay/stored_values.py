"""The stored form of what records change rarely: mappings and lists of an image, and the records of a transaction.

Each value is a part of a table, as a page of topics is (`stored_topics`). A value that is the same object as when it
was last stored is not encoded again, so a quiet cluster with many nodes costs no more than one with few. An open
transaction only grows, so its records are in parts of RECORDS, of which the last one changes.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, get_type_hints

from pydantic import TypeAdapter

from connectors.observations.observation import list_json
from streaming.replay.image import Image
from streaming.replay.log import Data, Transaction
from streaming.replay.stored_topics import TABLE_MAGIC, PageStore, deflated, packed_part, part_content, parts_of

IMAGE_VALUES: Final = (
    *("features", "controllers", "brokers"),
    *("recovering", "offline", "under_min_isr", "needed_replicas", "out_of_sync"),
    *("brokers_down", "offline_directories", "reassignments", "throttles", "broker_min_isrs", "grants"),
    "history",
)
"""The fields of an image that are stored as parts."""
RECORDS: Final = 1_024
_ADAPTERS: Final[Mapping[str, TypeAdapter[Any]]] = {
    name: TypeAdapter(get_type_hints(Image)[name]) for name in IMAGE_VALUES
}
_HELD: Final[TypeAdapter[list[Data]]] = list_json(Data)
_Place: TypeAlias = tuple[str, str, int]
"""Of a part: whose it is, the field, and its number."""


class _Part(NamedTuple):
    value: object
    size: int
    """How many elements of a list that grows are in the part."""
    stored: bytes


class StoredValues:
    """The parts of one cluster's newest stored state, with the values that they hold."""

    def __init__(self) -> None:
        self._stored: dict[_Place, _Part] = {}
        self._next: dict[_Place, _Part] = {}
        """The parts of the state that is being stored."""

    def end_state(self) -> None:
        """Ends the storing or restoring of a state: parts that it does not have are dropped."""
        self._stored, self._next = self._next, {}

    def pack_image(self, name: str, image: Image, pages: PageStore | None) -> bytes:
        """Returns the table of an image's values; `name` distinguishes the images of a state."""
        parts = [
            self._part((name, each, 0), value, 0, partial(_ADAPTERS[each].dump_json, value), pages)
            for each in IMAGE_VALUES
            for value in [getattr(image, each)]
        ]
        return TABLE_MAGIC + b"".join(parts)

    def unpack_image(self, name: str, image: Image, table: bytes, pages: PageStore | None) -> Image:
        """Returns the image with the values of a table.

        Raises:
            ValueError: the table or a page is damaged.
        """
        values: dict[str, Any] = {}
        for each, part in zip(IMAGE_VALUES, parts_of(table), strict=True):
            # Two images of a state usually have the same values: then they are one object.
            same = (one for (_, of, _), one in self._next.items() if of == each and one.stored == part)
            known = next(same, None) or _Part(_value(_ADAPTERS[each], part, pages), 0, part)
            self._next[name, each, 0] = known
            values[each] = known.value
        return replace(image, **values)

    def pack_held(self, name: str, transaction: Transaction, pages: PageStore | None) -> bytes:
        """Returns the table of a transaction's records; `name` distinguishes the logs of a state."""
        held = transaction.held
        parts = [
            self._part((name, "held", begin), held, size, partial(_held_json, held, begin, size), pages)
            for begin in range(0, len(held), RECORDS)
            for size in [min(RECORDS, len(held) - begin)]
        ]
        return TABLE_MAGIC + b"".join(parts)

    def unpack_held(self, name: str, transaction: Transaction, table: bytes, pages: PageStore | None) -> None:
        """Adds the records of a table to a transaction.

        Raises:
            ValueError: the table or a page is damaged.
        """
        held = transaction.held
        for part in parts_of(table):
            records, begin = _value(_HELD, part, pages), len(held)
            held += records
            self._next[name, "held", begin] = _Part(held, len(records), part)

    def _part(
        self, place: _Place, value: object, size: int, encoded: Callable[[], bytes], pages: PageStore | None
    ) -> bytes:
        part = self._stored.get(place)
        if part is None or part.value is not value or part.size != size:
            part = _Part(value, size, packed_part(deflated(encoded()), pages))
        self._next[place] = part
        return part.stored


def _held_json(held: list[Data], begin: int, size: int) -> bytes:
    return _HELD.dump_json(held[begin : begin + size])


def _value(adapter: TypeAdapter[Any], part: bytes, pages: PageStore | None) -> Any:
    return adapter.validate_python(json.loads(zlib.decompress(part_content(part, pages))))
