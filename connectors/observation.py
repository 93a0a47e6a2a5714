"""An Observation: one row of what was seen, the same on disk, in a relay topic and in Spark.

The one schema, in one place. `payload` by kind:

- `records`: record batches as received from the controller, whole batches, all committed, with
  credential-bearing values already blanked. `base_offset`..`last_offset` is the range they cover
  (`last_offset` = `base_offset` - 1 and an empty payload: a leader answered and had nothing new).
- `snapshot`: one batch-aligned piece of a `.checkpoint`; `base_offset` = the snapshot's end offset,
  `leader_epoch` = the snapshot's epoch, `last_offset` = the piece's number, counted from 0.
- `quorum`, `probe`, `view`, `unseen`, `audit`: `connectors.event.to_json` of a QuorumPolled, EndpointProbed,
  LeaderViewPolled, ObservationFailed, Audited.
"""

from dataclasses import dataclass
from enum import StrEnum


class ObservationKind(StrEnum):
    """What sort of look gave this row."""

    RECORDS = "records"
    SNAPSHOT = "snapshot"
    QUORUM = "quorum"
    PROBE = "probe"
    VIEW = "view"
    FAILED = "unseen"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One row. Rows of one cluster are totally ordered by `sequence`, given by the recorder at append."""

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
