"""Lets the code of a test know only the records up to a Kafka version, as a build before the newer ones did."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from connectors.metadata import field_readers, record_layouts, record_schemas


@contextmanager
def build_that_ends_at(kafka: str) -> Iterator[None]:
    """While entered, records that only newer Kafka versions have are unknown."""
    known = record_schemas.kafka_versions()
    kept = known[: known.index(kafka) + 1]
    document = record_schemas._document()
    restricted = {"kafka": [*kept], **{kind: _up_to(document[kind], kept) for kind in ("records", "control")}}
    with patch.object(record_schemas, "_document", lambda: restricted):
        _forget()
        try:
            yield
        finally:
            _forget()
    _forget()


def _up_to(records: list[dict[str, object]], kept: tuple[str, ...]) -> list[dict[str, object]]:
    found = []
    for record in records:
        versions = [line for line in record["versions"] if line["since"] in kept]  # type: ignore[attr-defined]
        lines = [{k: v for k, v in line.items() if k != "until" or v in kept} for line in versions]
        if lines:
            found.append({**record, "versions": lines})
    return found


def _forget() -> None:
    for cached in (record_schemas.record_schemas, record_schemas.kafka_versions, record_schemas.known_records):
        cached.cache_clear()
    field_readers.schema_readers.cache_clear()
    record_layouts._layouts.clear()
