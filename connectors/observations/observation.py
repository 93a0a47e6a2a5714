"""Observation: one row that the gatherer records, the same in the journal and in Spark.

`payload` by kind:

- `records`: record batches as received from the controller, whole batches, all committed, with
  credential-bearing values already redacted. `base_offset`..`last_offset` is the range they cover
  (`last_offset` = `base_offset` - 1 and an empty payload: a leader answered and had no new records).
- `snapshot`: one batch-aligned piece of a `.checkpoint`; `base_offset` = the snapshot's end offset,
  `leader_epoch` = the snapshot's epoch, `last_offset` = the piece's number, counted from 0.
- all others: `event.to_json` of the event in `observation_event.EVENT_OF_KIND`.
"""

from dataclasses import dataclass
from enum import StrEnum


class ObservationKind(StrEnum):
    """What an observation holds. The values and their order are stored: a new kind is the last."""

    RECORDS = "records"
    SNAPSHOT = "snapshot"
    QUORUM = "quorum"
    PROBE = "probe"
    FAILED = "failed"
    VIEW = "view"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One row. The rows of one cluster are totally ordered by `sequence`, which the journal writer assigns."""

    cluster: str
    """The cluster's name in the configuration."""
    kind: ObservationKind
    observed_at_ms: int
    """The gatherer's clock, milliseconds since the Unix epoch. Never decreases within a cluster."""
    base_offset: int | None = None
    last_offset: int | None = None
    leader_epoch: int | None = None
    high_watermark: int | None = None
    payload: bytes = b""
    sequence: int = -1
    """Position in the journal; -1 until recorded."""
