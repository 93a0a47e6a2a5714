"""The rows that the processor yields and `deliver` reads, and the processor's data frames.

pandas neither sorts nor groups nor looks at values: for a few rows each takes longer than the processor.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from connectors.observations.observation import Observation, unpacked
from rules.model.identifiers import Millis
from streaming.pipeline.schema import OUTPUT
from streaming.replay.cluster_monitor import RefusedRow, WaitingRows
from streaming.replay.machine_state import MachineState

TOPIC = "topic "
"""How the key begins that stands for the cluster of refused messages: `topic NAME partition N`. No cluster's name has a
space."""
MOST_OF_A_ROW: Final = 20
"""Refused parts of a row that are described one by one: a row may have thousands, and each is stored."""
QUARANTINED_STATE_MAX = 64 << 20
"""Bytes of the largest damaged state that is copied into the quarantine."""


class OutputKind(StrEnum):
    """The column `kind` of `schema.OUTPUT`, and what `name` and `body` hold."""

    FIRING = "firing"
    """What fires, whole: after a change, and after a state was restored; body = the Firing as JSON."""
    QUARANTINE = "quarantine"
    """name = SEQUENCE-ORDINAL of what did not decode, or SEQUENCE-COUNT of a row with that many events that could not
    be applied; body = its offset and the reason as JSON. name = state-CRC32: body = a damaged state."""
    EVALUATED = "evaluated"
    """The cluster was evaluated in this batch; body = EvaluationTimes as JSON."""
    WAITING = "waiting"
    """body = WaitingRows as JSON: rows of the cluster wait in its state, or none does any more."""
    SNAPSHOT = "snapshot"
    """name = the sequence of the newest row in the state and the latest time of its rows; body = the state for the
    journal (`streaming.replay.state_codec.snapshot_of`) in base 64."""
    STATUS = "status"
    """body = the cluster's status as JSON (`streaming.status.cluster_status`)."""


class EvaluationTimes(NamedTuple):
    """When a cluster was evaluated, and when it must be again."""

    due_ms: Millis | None
    """When a hold or clear time expires, if one does: a poll at that time decides about an alert."""
    quiet_until_ms: Millis
    """Until when no condition begins or ends because time passes: until then its quiet rows may wait."""
    now_ms: Millis
    """The latest time of the rows that were applied."""


WAITING_ROWS: Final = TypeAdapter(WaitingRows)
OutputRow: TypeAlias = tuple[str, str, str, str]
"""kind, cluster, name, body."""


def quarantined_rows(cluster: str, refused: Sequence[RefusedRow]) -> Iterator[OutputRow]:
    """Yields the descriptions of what a row has that was refused; of many records only of the first ones."""
    for row in refused[:MOST_OF_A_ROW]:
        yield _quarantined(cluster, row)
    further = refused[MOST_OF_A_ROW:]
    if further:
        reason = f"{further[0].reason}; this is one of {len(further)} further parts of the row that are refused"
        yield _quarantined(cluster, replace(further[0], reason=reason))


def _quarantined(cluster: str, row: RefusedRow) -> OutputRow:
    body = {"cluster": cluster, **asdict(row)}
    # The name has it.
    del body["ordinal"]
    return OutputKind.QUARANTINE, cluster, f"{row.sequence}-{row.ordinal}", json.dumps(body)


def refused_messages(frame: pd.DataFrame) -> Sequence[OutputRow]:
    """Returns the refused messages of a relay's topic, packed as JSON, for the quarantine."""
    bodies = [json.loads(bytes(value)) for value in frame["observation"].tolist()]
    return [(OutputKind.QUARANTINE, body["cluster"], f"offset-{body['offset']}", json.dumps(body)) for body in bodies]


def quarantined_state(cluster: str, blob: bytes, reason: str) -> OutputRow:
    """Returns a damaged state for the quarantine: it may be the only record of what was known."""
    body = {
        "cluster": cluster,
        "reason": reason,
        "bytes": len(blob),
        "state": base64.b64encode(blob).decode() if len(blob) <= QUARANTINED_STATE_MAX else None,
    }
    return OutputKind.QUARANTINE, cluster, f"state-{zlib.crc32(blob):08x}", json.dumps(body)


def snapshot_row(cluster: str, machine: MachineState, state: bytes) -> OutputRow:
    """Returns the row of a snapshot of a machine."""
    return OutputKind.SNAPSHOT, cluster, f"{machine.sequence} {machine.now_ms}", base64.b64encode(state).decode()


def observations(frames: Iterable[pd.DataFrame]) -> Mapping[str, Sequence[Observation]]:
    """Returns the observations of each cluster in journal order, of rows of `PACKED`: Spark guarantees no order."""
    rows = [unpacked(bytes(value)) for frame in frames for value in frame["observation"].tolist()]
    rows.sort(key=lambda row: row.sequence)
    return by_cluster(rows)


def by_cluster(rows: Iterable[Observation]) -> Mapping[str, Sequence[Observation]]:
    """Returns the rows of each cluster, in their order."""
    found: dict[str, list[Observation]] = {}
    for row in rows:
        found.setdefault(row.cluster, []).append(row)
    return found


def output_frame(rows: Sequence[OutputRow]) -> pd.DataFrame:
    """Returns rows, at least one, as a data frame with the columns of `schema.OUTPUT`."""
    # From a list of rows, pandas would find the type of each column.
    return pd.DataFrame(np.array(rows, object), columns=OUTPUT.fieldNames())
