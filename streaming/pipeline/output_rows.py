"""The rows that the step yields and `deliver` reads: one kind each for alerts, quarantine, poll requests and status."""

import base64
import json
import zlib
from enum import StrEnum
from typing import TypeAlias

TOPIC = "topic "
"""How the key begins that stands for the cluster of refused messages: `topic NAME partition N`. No cluster's name has a
space."""
QUARANTINED_STATE_MAX = 64 << 20
"""Bytes of the largest damaged state that is copied into the quarantine."""


class OutputKind(StrEnum):
    """The column `kind` of `schema.OUTPUT`, and what `name` and `body` hold."""

    ALERT = "alert"
    """name = fingerprint, body = the Alert as JSON."""
    QUARANTINE = "quarantine"
    """name = SEQUENCE-ORDINAL of what did not decode, or SEQUENCE-COUNT of a row with that many events that could not
    be applied; body = its offset and the reason as JSON. name = state-CRC32: body = a damaged state."""
    DUE = "due"
    """body = the time (ms since the epoch) at which a hold or clear time expires."""
    STATUS = "status"
    """body = the cluster's status as JSON (`streaming.status.cluster_status`)."""


OutputRow: TypeAlias = tuple[str, str, str, str]
"""kind, cluster, name, body."""


def quarantine_row(
    cluster: str, name: str, *, sequence: int, observed_at_ms: int, offset: int | None, length: int, reason: str
) -> OutputRow:
    """Returns the description of a row, or of a batch or record in it, for the quarantine."""
    body = {
        "cluster": cluster,
        "sequence": sequence,
        "observed_at_ms": observed_at_ms,
        "offset": offset,
        "length": length,
        "reason": reason,
    }
    return OutputKind.QUARANTINE, cluster, name, json.dumps(body)


def quarantined_state(cluster: str, blob: bytes, reason: str) -> OutputRow:
    """Returns a damaged state for the quarantine: it may be the only record of what was known."""
    body = {
        "cluster": cluster,
        "reason": reason,
        "bytes": len(blob),
        "state": base64.b64encode(blob).decode() if len(blob) <= QUARANTINED_STATE_MAX else None,
    }
    return OutputKind.QUARANTINE, cluster, f"state-{zlib.crc32(blob):08x}", json.dumps(body)
