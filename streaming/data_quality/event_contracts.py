"""Contracts of events: what the rows of the journal decode to."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from typing import get_args

from connectors.event import Event
from connectors.log_event import PartitionChanged, PartitionSet, RecordPosition, Undecodable, VotersReplaced
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import ObservationFailed, QuorumPolled
from rules.finding import Severity
from rules.model.identifiers import NodeId
from rules.model.monitoring import Reason
from streaming.data_quality.contract import (
    EARLIEST_MS,
    LATEST_MS,
    UUID,
    Absent,
    Between,
    Contract,
    Matches,
    NotBelow,
    OneOf,
    Suite,
)
from streaming.data_quality.contract_table import (
    Table,
    invalid_endpoints,
    malformed,
    negative,
    outside,
    repeated,
    shared,
)
from streaming.replay.contract_violations import DECODES

SKEW_MS = 86_400_000
"""How far a controller's clock may be ahead of the gatherer's before a timestamp is implausible: a day in ms."""
_TYPES = tuple(str(one.default) for each in get_args(Event) for one in fields(each) if one.name == "type")

_contract = partial(Contract, suite=Suite.EVENTS)

CONTRACTS: tuple[Contract, ...] = (
    _contract(
        name=DECODES,
        promise="every recorded batch, record and observation can be decoded",
        why="Undecodable data is not evaluated: a Kafka newer than this kraftwatch wrote it, or bytes are damaged.",
        source="connectors.metadata.decoder; KIP-631",
        severity=Severity.WARNING,
        check=Absent(column="undecodable"),
    ),
    _contract(
        name="event-type-known",
        promise="every event is of a known type",
        why="Replay applies a closed union of events; another type would stop it.",
        source="connectors.event.Event",
        severity=Severity.CRITICAL,
        check=OneOf(column="type", values=_TYPES),
    ),
    _contract(
        name="record-within-its-row",
        promise="a record's offset is within the range of its row",
        why="Otherwise reading the row again would skip or repeat records.",
        source="connectors.observation; org.apache.kafka.common.record.DefaultRecordBatch",
        severity=Severity.CRITICAL,
        check=Absent(column="outside_its_row"),
    ),
    _contract(
        name="record-offsets-ascend",
        promise="each record of a row has a higher offset than the one before it",
        why="Offsets are the order in which metadata is applied.",
        source="KIP-595; org.apache.kafka.common.record.DefaultRecordBatch",
        severity=Severity.CRITICAL,
        check=NotBelow(column="offset", floor="lowest_offset"),
    ),
    _contract(
        name="record-epoch-never-falls",
        promise="the leader epoch of the records in a row never decreases",
        why="A leader appends only in its own epoch, after all records of former epochs.",
        source="KIP-595; org.apache.kafka.raft.LeaderState",
        severity=Severity.CRITICAL,
        check=NotBelow(column="leader_epoch", floor="previous_leader_epoch"),
    ),
    _contract(
        name="record-time-plausible",
        promise="a record was written between the years 2011 and 2100",
        why="The duration of a recovery and the age of a snapshot use the log's clock.",
        source="org.apache.kafka.common.record.DefaultRecordBatch",
        severity=Severity.WARNING,
        check=Between(column="timestamp_ms", lowest=EARLIEST_MS, highest=LATEST_MS),
    ),
    _contract(
        name="record-not-from-the-future",
        promise="no record was written more than a day after it was observed",
        why="The leader's clock or this host's is wrong: durations that compare the two are meaningless.",
        source="kraftwatch: clocks are never mixed, but each must be plausible",
        severity=Severity.WARNING,
        check=NotBelow(column="latest_timestamp_ms", floor="timestamp_ms"),
    ),
    _contract(
        name="topic-id-well-formed",
        promise="a topic id is a UUID as Kafka prints it",
        why="Topics are identified by their id: an invalid one matches no topic.",
        source="KIP-516; org.apache.kafka.common.Uuid",
        severity=Severity.WARNING,
        check=Matches(column="topic_id", pattern=UUID),
    ),
    _contract(
        name="directory-ids-well-formed",
        promise="a replica's directory id is a UUID as Kafka prints it",
        why="A voter is identified by id and directory id (KIP-853): remedies contain it.",
        source="KIP-853, section Voters; org.apache.kafka.raft.ReplicaKey",
        severity=Severity.WARNING,
        check=Absent(column="malformed_directory_ids"),
    ),
    _contract(
        name="node-ids-possible",
        promise="the ids of replicas, voters and leaders are 0 or more",
        why="Kafka's -1 for no node is stored as no value.",
        source="KIP-631; node.id of org.apache.kafka.server.config.KRaftConfigs",
        severity=Severity.WARNING,
        check=Absent(column="impossible_ids"),
    ),
    _contract(
        name="replicas-differ",
        promise="no node is named twice among the replicas or in the ISR of a partition",
        why="A node that is listed twice would count as two replicas.",
        source="org.apache.kafka.metadata.PartitionRegistration",
        severity=Severity.WARNING,
        check=Absent(column="repeated_replicas"),
    ),
    _contract(
        name="isr-within-replicas",
        promise="the ISR of a partition contains only its replicas",
        why="A broker that is not a replica has no copy.",
        source="KIP-704; org.apache.kafka.metadata.PartitionRegistration",
        severity=Severity.WARNING,
        check=Absent(column="isr_outside_replicas"),
    ),
    _contract(
        name="elr-apart-from-isr",
        promise="no replica is in both the ISR and the ELR of a partition",
        why="The eligible leader replicas are those that left the ISR with all committed records.",
        source="KIP-966, section Eligible Leader Replicas; org.apache.kafka.controller.PartitionChangeBuilder",
        severity=Severity.WARNING,
        check=Absent(column="in_isr_and_elr"),
    ),
    _contract(
        name="leader-in-isr",
        promise="the leader of a partition is in its ISR",
        why="Even after an unclean election the new leader is the ISR (KIP-704).",
        source="KIP-704; org.apache.kafka.controller.PartitionChangeBuilder",
        severity=Severity.WARNING,
        check=Absent(column="leader_outside_isr"),
    ),
    _contract(
        name="voter-endpoints-dialable",
        promise="a voter's endpoint has a host and a port from 1 to 65535",
        why="The other voters and the monitor connect to it.",
        source="KIP-853, section VotersRecord",
        severity=Severity.WARNING,
        check=Absent(column="impossible_endpoints"),
    ),
    _contract(
        name="voter-or-observer",
        promise="no replica is both a voter and an observer in one DescribeQuorum answer",
        why="Only voters count for a majority.",
        source="KIP-595, section DescribeQuorum; org.apache.kafka.raft.LeaderState",
        severity=Severity.WARNING,
        check=Absent(column="voter_and_observer"),
    ),
    _contract(
        name="high-watermark-never-falls",
        promise="within an epoch the high watermark of DescribeQuorum never decreases",
        why="Committed records stay committed; `raft-invariant-broken` reports it for the quorum.",
        source="KIP-595; org.apache.kafka.raft.LeaderState",
        severity=Severity.WARNING,
        check=NotBelow(column="polled_high_watermark", floor="previous_polled_high_watermark"),
    ),
    _contract(
        name="high-watermark-within-the-log",
        promise="the high watermark is not beyond the end of the leader's log",
        why="A leader commits only records that it has.",
        source="KIP-595; org.apache.kafka.raft.LeaderState",
        severity=Severity.WARNING,
        check=NotBelow(column="leader_log_end_offset", floor="polled_high_watermark"),
    ),
)


@dataclass(slots=True)
class _Polled:
    leader_epoch: int
    high_watermark: int | None


class EventTable:
    """The table of events; polls are compared with former polls, from table to table."""

    def __init__(self) -> None:
        self.table = Table(
            numbers=(
                *("sequence", "ordinal", "offset", "lowest_offset", "leader_epoch", "previous_leader_epoch"),
                *("timestamp_ms", "latest_timestamp_ms"),
                *("polled_high_watermark", "previous_polled_high_watermark", "leader_log_end_offset"),
            ),
            texts=(
                *("cluster", "type", "undecodable", "outside_its_row", "topic_id", "malformed_directory_ids"),
                *("impossible_ids", "repeated_replicas", "isr_outside_replicas", "in_isr_and_elr"),
                *("leader_outside_isr", "impossible_endpoints", "voter_and_observer"),
            ),
        )
        self._polled: dict[str, _Polled] = {}

    def add(self, row: Observation, events: Iterable[Event]) -> None:
        """Adds all events of one row."""
        before: RecordPosition | None = None
        for ordinal, event in enumerate(events):
            at: RecordPosition | None = getattr(event, "at", None)
            self.table.add(
                {
                    "sequence": row.sequence,
                    "ordinal": ordinal,
                    "cluster": row.cluster,
                    "type": event.type,
                    **({} if at is None or at.snapshot else _placed(row, at, before)),
                    **self._columns(row.cluster, event),
                }
            )
            before = before if at is None else at

    def _columns(self, cluster: str, event: Event) -> dict[str, int | str | None]:
        match event:
            case Undecodable(offset=offset, reason=reason):
                where = "" if offset is None else f"offset {offset}: "
                return {"undecodable": f"{where}{reason}"}
            case PartitionSet() | PartitionChanged():
                return _partition(event)
            case VotersReplaced(voters=voters):
                return {
                    "malformed_directory_ids": malformed(voter.key.directory_id for voter in voters),
                    "impossible_ids": negative(voter.key.id for voter in voters),
                    "impossible_endpoints": invalid_endpoints(one for voter in voters for one in voter.endpoints),
                }
            case QuorumPolled():
                return self._quorum(cluster, event)
            case ObservationFailed(reason=Reason.METADATA_LOST):
                self._polled.pop(cluster, None)
                return {}
            case _:
                return {}

    def _quorum(self, cluster: str, event: QuorumPolled) -> dict[str, int | str | None]:
        before = self._polled.get(cluster)
        same_epoch = before is not None and before.leader_epoch == event.leader_epoch
        high_watermark = event.high_watermark
        floor = before.high_watermark if before is not None and same_epoch else None
        if before is None or event.leader_epoch >= before.leader_epoch:
            kept = floor if high_watermark is None else high_watermark
            self._polled[cluster] = _Polled(leader_epoch=event.leader_epoch, high_watermark=kept)
        replicas = (*event.voters, *event.observers)
        leader = next((one for one in replicas if one.key.id == event.leader_id), None)
        both = {one.key for one in event.voters} & {one.key for one in event.observers}
        return {
            "malformed_directory_ids": malformed(one.key.directory_id for one in replicas),
            "impossible_ids": negative([event.leader_id, *(one.key.id for one in replicas)]),
            "voter_and_observer": ", ".join(map(str, sorted(both))) or None,
            "polled_high_watermark": high_watermark,
            "previous_polled_high_watermark": floor,
            "leader_log_end_offset": None if leader is None else leader.log_end_offset,
        }


def _placed(row: Observation, at: RecordPosition, before: RecordPosition | None) -> dict[str, int | str | None]:
    """Returns a record's position in the log and the bounds of that position."""
    base, last = row.base_offset, row.last_offset
    within = row.kind is not ObservationKind.RECORDS or base is None or last is None or base <= at.offset <= last
    return {
        "offset": at.offset,
        "lowest_offset": None if before is None else before.offset + 1,
        "leader_epoch": at.leader_epoch,
        "previous_leader_epoch": None if before is None else before.leader_epoch,
        "timestamp_ms": at.timestamp_ms,
        "latest_timestamp_ms": row.observed_at_ms + SKEW_MS,
        "outside_its_row": None if within else f"offset {at.offset} in a row from {base} to {last}",
    }


def _partition(event: PartitionSet | PartitionChanged) -> dict[str, int | str | None]:
    replicas, isr = event.replicas, event.isr
    named: list[NodeId | None] = [*(replicas or ()), *(isr or ()), *(event.elr or ()), event.leader]
    return {
        "topic_id": event.topic_id,
        "impossible_ids": negative(named),
        "repeated_replicas": repeated(replicas) or repeated(isr),
        "isr_outside_replicas": outside(isr, replicas),
        "in_isr_and_elr": shared(isr, event.elr),
        "leader_outside_isr": None if event.leader is None else outside([event.leader], isr),
    }
