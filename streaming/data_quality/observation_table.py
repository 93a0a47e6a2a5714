"""The table of observations: the rows of the journal, as the gatherer recorded them."""

from dataclasses import dataclass

from connectors.gather.commit_buffer import BUFFER_BYTES_MAX
from connectors.gather.log_follower import MAX_BYTES
from connectors.metadata.redaction import redact
from connectors.observations.event import Event
from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.observation_event import EVENT_OF_KIND, ObservationFailed
from rules.model.monitoring import Reason
from streaming.data_quality.contract import JOURNAL, Suite, Table

PAYLOAD_BYTES_MAX = BUFFER_BYTES_MAX + MAX_BYTES
"""One row may contain everything that waited for the high watermark, and the answer that advanced it."""
_LOG_RESTARTED = (Reason.METADATA_LOST, Reason.TASK_FAILED, Reason.INTERRUPTED)
"""After these failures the log may be read again from its start."""


@dataclass(slots=True)
class _FormerRows:
    """State of the former rows of one cluster."""

    observed_at_ms: int | None = None
    next_offset: int | None = None
    log_epoch: int | None = None
    snapshot: tuple[int | None, int | None] | None = None
    pieces: int = 0


class ObservationTable:
    """The state of former rows is kept from table to table."""

    def __init__(self) -> None:
        self.table = Table(Suite.OBSERVATIONS)
        self._before: dict[str, _FormerRows] = {}

    def add(self, row: Observation, first: Event | None) -> None:
        """Adds a row with the first event that it decodes to."""
        before = self._before.setdefault(row.cluster, _FormerRows())
        if isinstance(first, ObservationFailed) and first.reason in _LOG_RESTARTED:
            before.next_offset = before.log_epoch = None
        size = len(row.payload)
        self.table.rows.append(
            {
                "sequence": row.sequence,
                "cluster": row.cluster or None,
                "observed_at_ms": row.observed_at_ms,
                "previous_observed_at_ms": before.observed_at_ms,
                "high_watermark": row.high_watermark,
                "oversized_payload": f"{size} bytes" if size > PAYLOAD_BYTES_MAX else None,
                "unblanked": _unblanked(row),
                "misfiled": _misfiled(row, first),
                **_of_the_log(row, before),
            }
        )
        before.observed_at_ms = row.observed_at_ms

    def logs_read_again(self) -> None:
        """Forgets how far each cluster's log was read: a repair had all logs read again from their start."""
        for before in self._before.values():
            before.next_offset = before.log_epoch = before.snapshot = None

    def add_damaged(self, problem: str) -> None:
        """Adds the position from which the journal cannot be read, with the reason."""
        self.table.rows.append({"cluster": JOURNAL, "damaged": problem})


def _of_the_log(row: Observation, before: _FormerRows) -> dict[str, int | None]:
    """Returns the columns of a row of the log and updates `before`."""
    if row.kind is ObservationKind.SNAPSHOT:
        snapshot = (row.base_offset, row.leader_epoch)
        # A restarted snapshot begins with piece 0, even if it is the same snapshot.
        goes_on = snapshot == before.snapshot and row.last_offset != 0
        expected: int | None = before.pieces if goes_on else 0
        if before.snapshot is None and before.next_offset is None:
            # The first row of the log in a sample, which may begin in the middle of a snapshot.
            expected = None
        before.snapshot, before.pieces = snapshot, (row.last_offset or 0) + 1
        before.next_offset, before.log_epoch = row.base_offset, row.leader_epoch
        return {"piece": row.last_offset, "expected_piece": expected}
    if row.kind is not ObservationKind.RECORDS or row.base_offset is None or row.last_offset is None:
        return {}
    epoch = row.leader_epoch if row.payload else None
    columns = {
        "base_offset_of_log": row.base_offset,
        "end_offset": row.last_offset + 1,
        "next_offset": before.next_offset,
        "log_epoch": epoch,
        "previous_log_epoch": before.log_epoch,
    }
    before.next_offset = row.last_offset + 1
    before.log_epoch = before.log_epoch if epoch is None else epoch
    return columns


def _unblanked(row: Observation) -> str | None:
    """Returns that a value is not blanked, never the value itself."""
    of_the_log = row.kind in (ObservationKind.RECORDS, ObservationKind.SNAPSHOT)
    if not of_the_log or redact(row.payload) == row.payload:
        return None
    return f"a record behind offset {row.base_offset} has a value that must be blanked"


def _misfiled(row: Observation, first: Event | None) -> str | None:
    wanted = EVENT_OF_KIND.get(row.kind)
    if wanted is None or isinstance(first, wanted | Undecodable):
        return None
    return "nothing" if first is None else first.type
