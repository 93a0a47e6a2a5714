"""Keys of stored values whose field has another name."""

from collections.abc import Mapping
from typing import Final

STORED_KEYS: Final[Mapping[str, object]] = {
    "alias_generator": lambda name: {"source": "sight"}.get(name, name),
    "serialize_by_alias": True,
}
"""The `__pydantic_config__` of types whose field `source` is stored as `sight`, in state blobs and in journal rows."""
