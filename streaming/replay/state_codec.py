"""The stored form of a MachineState, and of a ClusterMonitor: a versioned blob.

Layout: four bytes, `kww` and the version, then ten sections, each a length of four bytes (big-endian) and that many
bytes: the tracked conditions, a table of the rows that wait to be applied, and those of the machine. These are the hot
section (deflated JSON of MachineState, rewritten whenever an observation was applied), and tables whose parts are
rewritten only if they change: the partitions of the log, and those of an unfinished snapshot, as `stored_topics` stores
them; the values of the log's image, of the visible one and of the snapshot's, and the records of their transactions, as
`stored_values` stores them. Their large parts are pages outside the blob, if a PageStore keeps them. A blob of another
version is not read: that would lose state.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import Any

from pydantic import TypeAdapter

from connectors.errors import UsageError
from connectors.observations.observation import Observation, packed, unpacked
from rules.lifecycle import TrackedConditions
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine_state import MachineState
from streaming.replay.partitions import Partitions
from streaming.replay.stored_topics import (
    TABLE_MAGIC,
    PageStore,
    deflated,
    packed_part,
    part_content,
    parts_of,
    table_references,
    with_pages,
)
from streaming.replay.stored_values import IMAGE_VALUES, StoredValues

MAGIC = b"kww"
VERSION = 15
"""Of the stored form, which follows the fields of MachineState and of what it holds: changed ones need another."""
_HEADER_BYTES = len(MAGIC) + 1


class DamagedStateError(UsageError):
    """A stored state that is not as kraftwatch wrote it: it cannot be read."""


class UnusableStateError(UsageError):
    """A stored state of another version of kraftwatch, or one whose pages are lost: a new one must be begun."""


_OF_LOG: dict[str, set[str]] = {"image": {*IMAGE_VALUES}, "transaction": {"held"}}
_ELSEWHERE: dict[str, Any] = {"log": _OF_LOG, "loading": _OF_LOG, "visible_image": {*IMAGE_VALUES}}
"""What is not in the hot section."""
_TABLES = 7


@cache
def _state_json() -> TypeAdapter[MachineState]:
    # Not every command that replays a log reads or writes a state: this takes as long as the import of all rules.
    return TypeAdapter(MachineState)


@cache
def _conditions_json() -> TypeAdapter[TrackedConditions]:
    return TypeAdapter(TrackedConditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorParts:
    """The parts of a stored monitor."""

    tracked: TrackedConditions
    waiting: bytes
    """The rows that wait to be applied, as `waiting_table` returns them."""
    machine: bytes
    """As `to_bytes` returns it."""


def monitor_to_bytes(parts: MonitorParts) -> bytes:
    """Returns the stored form of a monitor."""
    tracked = deflated(json.dumps(_conditions_json().dump_python(parts.tracked), separators=(",", ":")).encode())
    return MAGIC + bytes([VERSION]) + _joined(tracked, parts.waiting) + parts.machine


def monitor_parts(cluster: str, blob: bytes) -> MonitorParts:
    """Returns what `monitor_to_bytes` stored.

    Raises:
        UnusableStateError: the blob is of another version.
        DamagedStateError: it is damaged.
    """
    stored, waiting, machine = _stored_parts(cluster, blob)
    try:
        tracked = _conditions_json().validate_python(json.loads(zlib.decompress(stored)))
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster, f"{type(error).__name__} while reading its alerts") from error
    return MonitorParts(tracked=tracked, waiting=waiting, machine=machine)


def waiting_part(row: Observation, pages: PageStore | None) -> bytes:
    """Returns a row that waits as a part of a table; `pages` keeps a large one."""
    return packed_part(packed(row), pages)


def waiting_table(parts: Sequence[bytes]) -> bytes:
    """Returns the table of rows that wait; empty without any."""
    return TABLE_MAGIC + b"".join(parts) if parts else b""


def unpack_waiting(cluster: str, table: bytes, pages: PageStore | None) -> tuple[Observation, ...]:
    """Returns the rows of a table.

    Raises:
        DamagedStateError: it, or a page, is damaged.
    """
    try:
        return tuple(unpacked(part_content(part, pages)) for part in parts_of(table))
    except (struct.error, IndexError, ValueError) as error:
        raise _damaged(cluster, f"{type(error).__name__} while reading rows that wait") from error


def readable_conditions(cluster: str, damaged: bytes, initial: bytes | None = None) -> TrackedConditions:
    """Returns the tracked conditions of a damaged state, so that its alerts keep firing.

    If they cannot be read either, those of `initial`: the alerts that are firing in the ledger.
    """
    try:
        return monitor_parts(cluster, damaged).tracked
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        return TrackedConditions() if initial is None else monitor_parts(cluster, initial).tracked


def stored_references(cluster: str, blob: bytes) -> frozenset[bytes]:
    """Returns the references of the pages that a stored monitor needs.

    Raises:
        UnusableStateError: the blob is of another version.
        DamagedStateError, ValueError: it is damaged.
    """
    _, waiting, machine = _stored_parts(cluster, blob)
    return frozenset(chain.from_iterable(map(table_references, [waiting, *_sections(cluster, machine)[1:]])))


def snapshot_of(cluster: str, blob: bytes, pages: PageStore | None) -> bytes:
    """Returns a stored monitor with its pages in it, and without the rows that wait.

    Raises:
        MissingPageError: one of the pages is missing or damaged.
    """
    parts = monitor_parts(cluster, blob)
    hot, *tables = _sections(cluster, parts.machine)
    whole = _joined(hot, *(with_pages(table, pages) for table in tables))
    return monitor_to_bytes(MonitorParts(tracked=parts.tracked, waiting=b"", machine=whole))


def without_conditions(cluster: str, blob: bytes) -> bytes:
    """Returns a stored monitor without its conditions: none of its alerts is firing; errors as of `monitor_parts`."""
    return monitor_to_bytes(replace(monitor_parts(cluster, blob), tracked=TrackedConditions()))


def to_bytes(state: MachineState, pages: PageStore | None, values: StoredValues) -> bytes:
    """Returns the sections of a machine; `pages` keeps their large parts, None: they are in it.

    `values`: those of the state as it was last stored or restored.
    """
    log, loading = state.log, state.loading
    visible = None if state.visible_image is log.image else state.visible_image
    hot = deflated(
        _state_json().dump_json(state, exclude={**_ELSEWHERE, **({"visible_image": True} if visible is None else {})})
    )
    sections = [
        hot,
        log.partitions.pack(pages),
        b"" if loading is None else loading.partitions.pack(pages),
        values.pack_image("log", log.image, pages),
        b"" if visible is None else values.pack_image("visible", visible, pages),
        b"" if loading is None else values.pack_image("loading", loading.image, pages),
        *(
            b"" if each is None or each.transaction is None else values.pack_held(name, each.transaction, pages)
            for name, each in (("log", log), ("loading", loading))
        ),
    ]
    values.end_state()
    return _joined(*sections)


def from_bytes(settings: ClusterSettings, blob: bytes, pages: PageStore | None, values: StoredValues) -> MachineState:
    """Returns the state whose sections `to_bytes` wrote, with the configured cluster id if there is one.

    `values` gets those of the state.

    Raises:
        UsageError: the blob is of another cluster.
        DamagedStateError: it is damaged.
    """
    cluster, configured = settings.name, settings.cluster_id or None
    hot, *tables = _sections(cluster, blob)
    with _damage_of(cluster):
        state = _state_json().validate_python(json.loads(zlib.decompress(hot)))
    if configured is not None and state.cluster_id not in (None, configured):
        raise UsageError(
            f"the checkpoint's state of cluster {cluster} is of cluster id {state.cluster_id}, "
            f"not {configured}: use another checkpoint folder"
        )
    state.cluster_id = configured or state.cluster_id
    _check_pages(cluster, tables, pages)
    with _damage_of(cluster):
        _add_tables(state, tables, pages, values)
    return state


@contextmanager
def _damage_of(cluster: str) -> Iterator[None]:
    try:
        yield
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster, f"{type(error).__name__} while reading it") from error


def _add_tables(state: MachineState, tables: Sequence[bytes], pages: PageStore | None, values: StoredValues) -> None:
    topics, loading_topics, image, visible, loading_image, held, loading_held = tables
    logs = (
        ("log", state.log, topics, image, held),
        ("loading", state.loading, loading_topics, loading_image, loading_held),
    )
    for name, log, packed_topics, packed_image, packed_held in logs:
        if log is not None:
            log.image = values.unpack_image(name, log.image, packed_image, pages)
            log.partitions = Partitions(
                recovering=log.image.recovering,
                offline=log.image.offline,
                under_min_isr=log.image.under_min_isr,
                needed_replicas=None if name == "loading" else log.image.needed_replicas,
                out_of_sync=log.image.out_of_sync,
                brokers_down=log.image.brokers_down,
                min_isr=log.image.min_isr,
                offline_directories=log.image.offline_directories,
                reassignments=log.image.reassignments,
                packed=packed_topics,
                pages=pages,
            )
            if log.transaction is not None:
                values.unpack_held(name, log.transaction, packed_held, pages)
    state.visible_image = (
        values.unpack_image("visible", state.visible_image, visible, pages) if visible else state.log.image
    )
    values.end_state()


def _joined(*sections: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(section)) + section for section in sections)


def _stored_parts(cluster: str, blob: bytes) -> tuple[bytes, bytes, bytes]:
    """Returns the tracked conditions, the rows that wait and the machine."""
    if blob[: len(MAGIC)] != MAGIC or len(blob) < _HEADER_BYTES:
        raise _damaged(cluster, "its header is missing")
    if (version := blob[len(MAGIC)]) != VERSION:
        raise UnusableStateError(
            f"the state of cluster {cluster} has version {version}, and this kraftwatch reads version {VERSION}"
        )
    tracked, end = _section(cluster, blob, _HEADER_BYTES)
    waiting, end = _section(cluster, blob, end)
    return tracked, waiting, blob[end:]


def _section(cluster: str, blob: bytes, start: int) -> tuple[bytes, int]:
    """Returns the section that begins there, and where it ends."""
    if len(blob) < start + 4:
        raise _damaged(cluster, f"it ends after {len(blob)} bytes")
    end = start + 4 + int.from_bytes(blob[start : start + 4], "big")
    return blob[start + 4 : end], end


def _sections(cluster: str, blob: bytes) -> list[bytes]:
    sections, start = [], 0
    for _ in range(1 + _TABLES):
        section, start = _section(cluster, blob, start)
        sections.append(section)
    if start != len(blob):
        raise _damaged(cluster, f"it has {len(blob)} bytes instead of {start}")
    return sections


def _check_pages(cluster: str, packed: Iterable[bytes], pages: PageStore | None) -> None:
    """Reads every page, because the partitions are restored only when an event needs them."""
    if pages is None:
        return
    try:
        for reference in chain.from_iterable(map(table_references, packed)):
            pages.get(reference)
    except ValueError as error:
        raise UnusableStateError(f"the state of cluster {cluster} lacks a page: {error}") from error


def _damaged(cluster: str, what: str) -> DamagedStateError:
    return DamagedStateError(
        f"the checkpoint's state of cluster {cluster} is damaged ({what}): stop the job and move Spark's checkpoint "
        "away, and it is built again"
    )
