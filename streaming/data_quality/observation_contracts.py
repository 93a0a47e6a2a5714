"""Contracts of observations: the rows of the journal, as the gatherer recorded them."""

from dataclasses import dataclass
from functools import partial

from connectors.event import Event
from connectors.gather.commit_buffer import BUFFER_BYTES_MAX
from connectors.gather.log_follower import MAX_BYTES
from connectors.log_event import Undecodable
from connectors.metadata.redaction import redact
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import EVENT_OF_KIND, ObservationFailed
from rules.finding import Severity
from rules.model.monitoring import Reason
from streaming.data_quality.contract import (
    EARLIEST_MS,
    LATEST_MS,
    Absent,
    Between,
    Contract,
    NotBelow,
    OneOf,
    Present,
    Suite,
)
from streaming.data_quality.contract_table import Table

PAYLOAD_BYTES_MAX = BUFFER_BYTES_MAX + MAX_BYTES
"""One row may contain everything that waited for the high watermark, and the answer that advanced it."""
_LOG = (ObservationKind.RECORDS, ObservationKind.SNAPSHOT)
_LOG_RESTARTED = (Reason.METADATA_LOST, Reason.TASK_FAILED, Reason.INTERRUPTED)
"""After these failures the log may be read again from its start."""

_contract = partial(Contract, suite=Suite.OBSERVATIONS)

JOURNAL = "(journal)"
"""Stands for the cluster of a row that cannot be read."""

CONTRACTS: tuple[Contract, ...] = (
    _contract(
        name="rows-are-whole",
        promise="every published row of the journal exists and is undamaged",
        why="A published row never changes (its CRC-32C shows it); rows after a damaged one cannot be read.",
        source="connectors.journal.frame",
        severity=Severity.CRITICAL,
        check=Absent(column="damaged"),
    ),
    _contract(
        name="cluster-named",
        promise="every row names its cluster",
        why="A row without a cluster is never evaluated.",
        source="connectors.observation",
        severity=Severity.CRITICAL,
        check=Present(column="cluster"),
    ),
    _contract(
        name="kind-known",
        promise="every row is of a known kind",
        why="A row of an unknown kind is neither decoded nor evaluated.",
        source="connectors.observation.ObservationKind",
        severity=Severity.CRITICAL,
        check=OneOf(column="kind", values=tuple(kind.value for kind in ObservationKind)),
    ),
    _contract(
        name="observed-at-plausible",
        promise="every row was observed between the years 2011 and 2100",
        why="Holds and ages use this clock: a wrong one fires or resolves everything at once.",
        source="connectors.gather.observation_writer",
        severity=Severity.CRITICAL,
        check=Between(column="observed_at_ms", lowest=EARLIEST_MS, highest=LATEST_MS),
    ),
    _contract(
        name="time-never-goes-back",
        promise="no row of a cluster was observed earlier than the row before it",
        why="Time is an input of every rule: a hold could begin before its condition.",
        source="connectors.observation.Observation.observed_at_ms",
        severity=Severity.CRITICAL,
        check=NotBelow(column="observed_at_ms", floor="previous_observed_at_ms"),
    ),
    _contract(
        name="secrets-are-blanked",
        promise="no recorded batch contains a credential or the value of a configuration",
        why="The log contains passwords and private keys in plain text; they are blanked before a byte is written.",
        source="connectors.metadata.redaction; KIP-554, KIP-48, org.apache.kafka.common.metadata.ConfigRecord",
        severity=Severity.CRITICAL,
        check=Absent(column="unblanked"),
    ),
    _contract(
        name="offsets-ascend",
        promise="each row of the log begins at or after the end of the row before it",
        why="Committed records are read once and in order; a row that goes back means two gatherers, or a restored "
        "journal. After a loss of metadata, a pause or a repair the log may be read again.",
        source="KIP-595, section Fetch; connectors.gather.commit_buffer",
        severity=Severity.CRITICAL,
        check=NotBelow(column="base_offset_of_log", floor="next_offset"),
    ),
    _contract(
        name="no-offset-is-passed-over",
        promise="no offset between two rows of the log is missing",
        why="KRaft's log has no gaps: missing records were never evaluated. A snapshot covers the gap before its end.",
        source="KIP-595; KIP-630; connectors.gather.commit_buffer",
        severity=Severity.CRITICAL,
        check=NotBelow(column="next_offset", floor="base_offset_of_log"),
    ),
    _contract(
        name="range-not-reversed",
        promise="a row of the log ends no earlier than one offset before it begins",
        why="An empty answer ends one offset before its base offset; anything less is not a range.",
        source="connectors.observation",
        severity=Severity.CRITICAL,
        check=NotBelow(column="end_offset", floor="base_offset_of_log"),
    ),
    _contract(
        name="only-committed-rows",
        promise="no row of the log extends beyond its high watermark",
        why="The next leader may truncate uncommitted records, which would have been evaluated as facts.",
        source="KIP-595, section Kafka Raft Protocol; org.apache.kafka.raft.KafkaRaftClient",
        severity=Severity.CRITICAL,
        check=NotBelow(column="high_watermark", floor="end_offset"),
    ),
    _contract(
        name="log-epoch-never-falls",
        promise="the leader epoch of the records never decreases along the log's rows",
        why="A log's epochs ascend with its offsets (Raft's log matching): a lower one belongs to another log.",
        source="KIP-595; org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache",
        severity=Severity.CRITICAL,
        check=NotBelow(column="log_epoch", floor="previous_log_epoch"),
    ),
    _contract(
        name="epoch-not-negative",
        promise="a leader epoch is 0 or more",
        why="Epochs begin with 0; Kafka's -1 for no epoch is stored as no value.",
        source="KIP-595; org.apache.kafka.raft.QuorumState",
        severity=Severity.WARNING,
        check=Between(column="leader_epoch", lowest=0, highest=2**31 - 1),
    ),
    _contract(
        name="snapshot-pieces-in-order",
        promise="the pieces of a snapshot are numbered from 0 without a gap",
        why="Replay needs the complete snapshot: with a missing piece, partitions are missing.",
        source="KIP-630; connectors.gather.snapshot_buffer.SnapshotBuffer",
        severity=Severity.CRITICAL,
        check=NotBelow(column="expected_piece", floor="piece"),
    ),
    _contract(
        name="payload-within-bounds",
        promise="a payload is no larger than one answer and the uncommitted records before it can be",
        why="The gatherer, Spark's source and the decoder each hold a complete row in memory.",
        source="connectors.gather.log_follower.MAX_BYTES, connectors.gather.commit_buffer.BUFFER_BYTES_MAX",
        severity=Severity.WARNING,
        check=Between(column="payload_bytes", lowest=0, highest=PAYLOAD_BYTES_MAX),
    ),
    _contract(
        name="observation-is-of-its-kind",
        promise="a row that is not part of the log contains one event of its kind",
        why="A poll recorded as a probe would be evaluated as a probe.",
        source="connectors.event",
        severity=Severity.WARNING,
        check=Absent(column="misfiled"),
    ),
)


@dataclass(slots=True)
class _FormerRows:
    """State of the former rows of one cluster."""

    observed_at_ms: int | None = None
    next_offset: int | None = None
    log_epoch: int | None = None
    snapshot: tuple[int | None, int | None] | None = None
    pieces: int = 0


class ObservationTable:
    """The table of observations; the state of former rows is kept from table to table."""

    def __init__(self) -> None:
        self.table = Table(
            numbers=(
                *("sequence", "observed_at_ms", "previous_observed_at_ms", "leader_epoch", "high_watermark"),
                *("base_offset_of_log", "end_offset", "next_offset", "log_epoch", "previous_log_epoch"),
                *("piece", "expected_piece", "payload_bytes"),
            ),
            texts=("cluster", "kind", "damaged", "unblanked", "misfiled"),
        )
        self._before: dict[str, _FormerRows] = {}

    def add(self, row: Observation, first: Event | None) -> None:
        """Adds a row with the first event that it decodes to."""
        before = self._before.setdefault(row.cluster, _FormerRows())
        if isinstance(first, ObservationFailed) and first.reason in _LOG_RESTARTED:
            before.next_offset = before.log_epoch = None
        self.table.add(
            {
                "sequence": row.sequence,
                "cluster": row.cluster or None,
                "kind": row.kind.value,
                "observed_at_ms": row.observed_at_ms,
                "previous_observed_at_ms": before.observed_at_ms,
                "leader_epoch": row.leader_epoch,
                "high_watermark": row.high_watermark,
                "payload_bytes": len(row.payload),
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
        self.table.add({"cluster": JOURNAL, "damaged": problem})


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
    if row.kind not in _LOG or redact(row.payload) == row.payload:
        return None
    return f"a record behind offset {row.base_offset} has a value that must be blanked"


def _misfiled(row: Observation, first: Event | None) -> str | None:
    wanted = EVENT_OF_KIND.get(row.kind)
    if wanted is None or isinstance(first, wanted | Undecodable):
        return None
    return "nothing" if first is None else first.type
