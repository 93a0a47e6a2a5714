"""The stored form of a ClusterMonitor: `kww`, a version, and the length and bytes of the tracked conditions.

The bytes of its machine follow (`state_codec`).
"""

import json
import struct
import zlib

from pydantic import TypeAdapter

from connectors.errors import UsageError
from rules.lifecycle import TrackedConditions
from streaming.replay.machine import Machine
from streaming.replay.state_codec import DamagedStateError, page_references
from streaming.replay.stored_topics import deflated

MAGIC = b"kww"
VERSION = 1

_TRACKED: TypeAdapter[TrackedConditions] = TypeAdapter(TrackedConditions)


def to_bytes(conditions: TrackedConditions, machine: Machine) -> bytes:
    """Returns the stored form."""
    tracked = deflated(json.dumps(_TRACKED.dump_python(conditions), separators=(",", ":")).encode())
    return MAGIC + bytes([VERSION]) + struct.pack(">I", len(tracked)) + tracked + machine.to_bytes()


def parts(cluster: str, blob: bytes) -> tuple[TrackedConditions, bytes]:
    """Returns the tracked conditions and the bytes of the machine.

    Raises:
        UsageError: the blob is of another version of kraftwatch.
        DamagedStateError: it is damaged.
    """
    start, end = len(MAGIC) + 5, _tracked_end(cluster, blob)
    try:
        return _TRACKED.validate_python(json.loads(zlib.decompress(blob[start:end]))), blob[end:]
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster) from error


def stored_references(cluster: str, blob: bytes) -> frozenset[bytes]:
    """Returns the references of the pages that a stored monitor needs.

    Raises:
        UsageError: the blob is of another version of kraftwatch.
        DamagedStateError, ValueError: it is damaged.
    """
    return frozenset(page_references(cluster, blob[_tracked_end(cluster, blob) :]))


def readable_conditions(cluster: str, damaged: bytes, initial: bytes | None = None) -> TrackedConditions:
    """Returns the tracked conditions of a damaged state, so that its alerts keep firing.

    If they cannot be read either, those of `initial`: the alerts that are firing in the ledger.
    """
    try:
        return parts(cluster, damaged)[0]
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        return TrackedConditions() if initial is None else parts(cluster, initial)[0]


def _tracked_end(cluster: str, blob: bytes) -> int:
    start = len(MAGIC) + 5
    if blob[: len(MAGIC)] != MAGIC or len(blob) < start:
        raise _damaged(cluster)
    if blob[len(MAGIC)] != VERSION:
        raise UsageError(
            f"the checkpoint's alerts of cluster {cluster} have version {blob[len(MAGIC)]}, this kraftwatch reads "
            f"{VERSION}: run the kraftwatch that wrote them, or start with a new checkpoint folder"
        )
    return start + int.from_bytes(blob[start - 4 : start], "big")


def _damaged(cluster: str) -> DamagedStateError:
    return DamagedStateError(
        f"the checkpoint's alerts of cluster {cluster} are damaged: start with a new checkpoint folder"
    )
