"""Observations: the rows of the journal, as the gatherer recorded them."""

from dataclasses import dataclass
from functools import partial

from connectors.event import (
    Audited,
    EndpointProbed,
    Event,
    LeaderViewPolled,
    ObservationFailed,
    QuorumPolled,
    Undecodable,
)
from connectors.gather.commit_buffer import HELD_BYTES_MAX
from connectors.gather.log_follower import MAX_BYTES
from connectors.metadata.redaction import blanked
from connectors.observation import Kind, Observation
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

PAYLOAD_BYTES_MAX = HELD_BYTES_MAX + MAX_BYTES
"""What was held back until the high watermark covered it may come in one row, with the answer that did so."""
_LOG = (Kind.RECORDS, Kind.SNAPSHOT)
_EVENTS = {
    Kind.QUORUM: QuorumPolled,
    Kind.PROBE: EndpointProbed,
    Kind.VIEW: LeaderViewPolled,
    Kind.UNSEEN: ObservationFailed,
    Kind.AUDIT: Audited,
}
_BEGUN_ANEW = (Reason.METADATA_LOST, Reason.INTERRUPTED)
"""After these the log may be read again from its start."""

_contract = partial(Contract, suite=Suite.OBSERVATIONS)

JOURNAL = "(journal)"
"""Stands for the cluster of a row that cannot be read."""

CONTRACTS: tuple[Contract, ...] = (
    _contract(
        name="rows-are-whole",
        promise="every published row of the journal is there and undamaged",
        why="A published row never changes (its CRC-32C says so); behind a damaged one nothing can be read.",
        source="connectors.journal.frame",
        severity=Severity.CRITICAL,
        check=Absent(column="damaged"),
    ),
    _contract(
        name="cluster-named",
        promise="every row names its cluster",
        why="The row would be nobody's: it is never judged.",
        source="connectors.observation",
        severity=Severity.CRITICAL,
        check=Present(column="cluster"),
    ),
    _contract(
        name="kind-known",
        promise="every row is of a known kind",
        why="What is of no known kind is not decoded, and so not judged.",
        source="connectors.observation.Kind",
        severity=Severity.CRITICAL,
        check=OneOf(column="kind", values=tuple(kind.value for kind in Kind)),
    ),
    _contract(
        name="observed-at-plausible",
        promise="every row was observed after Kafka was born and before the year 2100",
        why="Holds and ages are counted by this clock: a wild one fires or resolves everything at once.",
        source="connectors.gather.observation_writer",
        severity=Severity.CRITICAL,
        check=Between(column="observed_at_ms", lowest=EARLIEST_MS, highest=LATEST_MS),
    ),
    _contract(
        name="time-never-goes-back",
        promise="a cluster's rows are never observed earlier than the rows before them",
        why="Time is an input of every rule: with time that goes back a hold would begin before its condition.",
        source="connectors.observation.Observation.observed_at_ms",
        severity=Severity.CRITICAL,
        check=NotBelow(column="observed_at_ms", floor="previous_observed_at_ms"),
    ),
    _contract(
        name="secrets-are-blanked",
        promise="no recorded batch holds a credential or the value of a configuration",
        why="The log holds passwords and private keys in plain text; they are blanked before a byte is written.",
        source="connectors.metadata.redaction; KIP-554, KIP-48, org.apache.kafka.common.metadata.ConfigRecord",
        severity=Severity.CRITICAL,
        check=Absent(column="unblanked"),
    ),
    _contract(
        name="offsets-ascend",
        promise="the log's rows go on behind the offset where the row before them ended",
        why="What is committed is read once and in order; a row that goes back was written by two gatherers, or the "
        "journal was put back. After a loss of metadata or a pause the log may be read anew.",
        source="KIP-595, section Fetch; connectors.gather.commit_buffer",
        severity=Severity.CRITICAL,
        check=NotBelow(column="base_offset_of_log", floor="next_offset"),
    ),
    _contract(
        name="no-offset-is-passed-over",
        promise="no offset between two rows of the log is left out",
        why="KRaft's log has no gaps: what is left out was never judged. A snapshot closes the gap before its end.",
        source="KIP-595; KIP-630; connectors.gather.commit_buffer",
        severity=Severity.CRITICAL,
        check=NotBelow(column="next_offset", floor="base_offset_of_log"),
    ),
    _contract(
        name="range-not-reversed",
        promise="a row of the log ends no earlier than one offset before it begins",
        why="An empty answer ends just before its base offset; anything less is no range.",
        source="connectors.observation",
        severity=Severity.CRITICAL,
        check=NotBelow(column="end_offset", floor="base_offset_of_log"),
    ),
    _contract(
        name="only-committed-rows",
        promise="no row of the log reaches beyond the high watermark it came with",
        why="What is not committed may still be cut off by the next leader, and would have been judged as fact.",
        source="KIP-595, section Kafka Raft Protocol; org.apache.kafka.raft.KafkaRaftClient",
        severity=Severity.CRITICAL,
        check=NotBelow(column="high_watermark", floor="end_offset"),
    ),
    _contract(
        name="log-epoch-never-falls",
        promise="along the log's rows the leader epoch of what they hold never falls",
        why="A log's epochs ascend with its offsets (Raft's log matching): a lower one is another log.",
        source="KIP-595; org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache",
        severity=Severity.CRITICAL,
        check=NotBelow(column="log_epoch", floor="previous_log_epoch"),
    ),
    _contract(
        name="epoch-not-negative",
        promise="a leader epoch is 0 or more",
        why="Epochs begin with 0; -1 is Kafka's word for none, and is none here.",
        source="KIP-595; org.apache.kafka.raft.QuorumState",
        severity=Severity.WARNING,
        check=Between(column="leader_epoch", lowest=0, highest=2**31 - 1),
    ),
    _contract(
        name="snapshot-pieces-in-order",
        promise="a snapshot's pieces are counted from 0 without a gap",
        why="Replay takes a snapshot whole: a piece that is missing is partitions that are missing.",
        source="KIP-630; connectors.gather.commit_buffer.SnapshotTail",
        severity=Severity.CRITICAL,
        check=NotBelow(column="expected_piece", floor="piece"),
    ),
    _contract(
        name="payload-within-bounds",
        promise="a payload is no larger than what one answer and the tail held back can bring",
        why="A row is held in memory whole, by the gatherer, by Spark's source and by the decoder.",
        source="connectors.gather.log_follower.MAX_BYTES, connectors.gather.commit_buffer.HELD_BYTES_MAX",
        severity=Severity.WARNING,
        check=Between(column="payload_bytes", lowest=0, highest=PAYLOAD_BYTES_MAX),
    ),
    _contract(
        name="look-is-of-its-kind",
        promise="a row that is no part of the log holds one event of its own kind",
        why="A poll that is recorded as a probe would be judged as what it is not.",
        source="connectors.event",
        severity=Severity.WARNING,
        check=Absent(column="misfiled"),
    ),
)


@dataclass(slots=True)
class _Before:
    """What one cluster's rows before this one were."""

    observed_at_ms: int | None = None
    next_offset: int | None = None
    log_epoch: int | None = None
    snapshot: tuple[int | None, int | None] | None = None
    pieces: int = 0


class Observations:
    """The table of observations; what a row is held against goes on from table to table."""

    def __init__(self) -> None:
        self.table = Table(
            numbers=(
                *("sequence", "observed_at_ms", "previous_observed_at_ms", "leader_epoch", "high_watermark"),
                *("base_offset_of_log", "end_offset", "next_offset", "log_epoch", "previous_log_epoch"),
                *("piece", "expected_piece", "payload_bytes"),
            ),
            texts=("cluster", "kind", "damaged", "unblanked", "misfiled"),
        )
        self._before: dict[str, _Before] = {}

    def add(self, row: Observation, first: Event | None) -> None:
        """One row, and the first event that it decodes to."""
        before = self._before.setdefault(row.cluster, _Before())
        if isinstance(first, ObservationFailed) and first.reason in _BEGUN_ANEW:
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

    def add_damaged(self, problem: str) -> None:
        """Where the journal cannot be read any further, and why."""
        self.table.add({"cluster": JOURNAL, "damaged": problem})


def _of_the_log(row: Observation, before: _Before) -> dict[str, int | None]:
    """The columns of a row of the log; `before` goes on."""
    if row.kind is Kind.SNAPSHOT:
        snapshot = (row.base_offset, row.leader_epoch)
        # One that is begun again begins with piece 0, also when it is the same one.
        goes_on = snapshot == before.snapshot and row.last_offset != 0
        expected: int | None = before.pieces if goes_on else 0
        if before.snapshot is None and before.next_offset is None:
            # The first of the log that is held at all: a sample may begin in the midst of a snapshot.
            expected = None
        before.snapshot, before.pieces = snapshot, (row.last_offset or 0) + 1
        before.next_offset, before.log_epoch = row.base_offset, row.leader_epoch
        return {"piece": row.last_offset, "expected_piece": expected}
    if row.kind is not Kind.RECORDS or row.base_offset is None or row.last_offset is None:
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
    """That something stands there which ought to be blank; never what."""
    if row.kind not in _LOG or blanked(row.payload) == row.payload:
        return None
    return f"a record behind offset {row.base_offset} shows what ought to be blank"


def _misfiled(row: Observation, first: Event | None) -> str | None:
    wanted = _EVENTS.get(row.kind)
    if wanted is None or isinstance(first, wanted | Undecodable):
        return None
    return "nothing" if first is None else first.type
