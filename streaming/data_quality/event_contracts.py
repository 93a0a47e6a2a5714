"""Events: what the rows of the journal decode to."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import partial
from typing import get_args

from connectors.event import (
    At,
    Event,
    ObservationFailed,
    PartitionChanged,
    PartitionSet,
    QuorumPolled,
    Undecodable,
    VotersSet,
)
from connectors.observation import Kind, Observation
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
from streaming.data_quality.contract_table import Table, impossible, malformed, outside, repeated, shared, undialable
from streaming.replay.contract_violations import DECODES

SKEW_MS = 86_400_000
"""How far a controller's clock may be ahead of ours before a timestamp is no time: a day."""
_TYPES = tuple(str(one.default) for each in get_args(Event) for one in fields(each) if one.name == "type")

_contract = partial(Contract, suite=Suite.EVENTS)

CONTRACTS: tuple[Contract, ...] = (
    _contract(
        name=DECODES,
        promise="every batch, record and look that is recorded decodes",
        why="What does not decode is not judged: a Kafka newer than this kraftwatch wrote it, or bytes are damaged.",
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
        promise="a record's offset lies within the range of the row that brought it",
        why="Outside it the row covers what it does not hold, and re-reading it would skip or repeat records.",
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
        promise="each record of a row is of the epoch of the one before it, or of a newer one",
        why="A leader writes only in its own epoch, behind everything of the epochs before.",
        source="KIP-595; org.apache.kafka.raft.LeaderState",
        severity=Severity.CRITICAL,
        check=NotBelow(column="leader_epoch", floor="previous_leader_epoch"),
    ),
    _contract(
        name="record-time-plausible",
        promise="a record was written after Kafka was born and before the year 2100",
        why="How long a partition recovers, and how old a snapshot is, is counted by the log's clock.",
        source="org.apache.kafka.common.record.DefaultRecordBatch",
        severity=Severity.WARNING,
        check=Between(column="timestamp_ms", lowest=EARLIEST_MS, highest=LATEST_MS),
    ),
    _contract(
        name="record-not-from-the-future",
        promise="no record was written more than a day after it was observed",
        why="The leader's clock, or this host's, is far off: durations that compare the two mean nothing.",
        source="kraftwatch: two clocks are never mixed, but both must be clocks",
        severity=Severity.WARNING,
        check=NotBelow(column="latest_timestamp_ms", floor="timestamp_ms"),
    ),
    _contract(
        name="topic-id-well-formed",
        promise="a topic id is a UUID as Kafka prints it",
        why="Topics are known by their id: a broken one is a topic that nobody has.",
        source="KIP-516; org.apache.kafka.common.Uuid",
        severity=Severity.WARNING,
        check=Matches(column="topic_id", pattern=UUID),
    ),
    _contract(
        name="directory-ids-well-formed",
        promise="a replica's directory id is a UUID as Kafka prints it",
        why="A voter is its id and its directory id (KIP-853): the remedies name it.",
        source="KIP-853, section Voters; org.apache.kafka.raft.ReplicaKey",
        severity=Severity.WARNING,
        check=Absent(column="malformed_directory_ids"),
    ),
    _contract(
        name="node-ids-possible",
        promise="replicas, voters and leaders are nodes: their ids are 0 or more",
        why="-1 is Kafka's word for none, and is none here.",
        source="KIP-631; node.id of org.apache.kafka.server.config.KRaftConfigs",
        severity=Severity.WARNING,
        check=Absent(column="impossible_ids"),
    ),
    _contract(
        name="replicas-differ",
        promise="no node is named twice among the replicas or in the ISR of a partition",
        why="A replica is a node: twice the same would count as two.",
        source="org.apache.kafka.metadata.PartitionRegistration",
        severity=Severity.WARNING,
        check=Absent(column="repeated_replicas"),
    ),
    _contract(
        name="isr-within-replicas",
        promise="the ISR of a partition holds only its replicas",
        why="Who is not a replica has no copy that could be in sync.",
        source="KIP-704; org.apache.kafka.metadata.PartitionRegistration",
        severity=Severity.WARNING,
        check=Absent(column="isr_outside_replicas"),
    ),
    _contract(
        name="elr-apart-from-isr",
        promise="no replica is in the ISR and in the ELR of a partition at once",
        why="The eligible leader replicas are those that left the ISR with the whole log.",
        source="KIP-966, section Eligible Leader Replicas; org.apache.kafka.controller.PartitionChangeBuilder",
        severity=Severity.WARNING,
        check=Absent(column="in_isr_and_elr"),
    ),
    _contract(
        name="leader-in-isr",
        promise="the leader of a partition is in its ISR",
        why="An unclean election makes the new leader the whole ISR (KIP-704): it is never outside.",
        source="KIP-704; org.apache.kafka.controller.PartitionChangeBuilder",
        severity=Severity.WARNING,
        check=Absent(column="leader_outside_isr"),
    ),
    _contract(
        name="voter-endpoints-dialable",
        promise="a voter's endpoint has a host and a port from 1 to 65535",
        why="The other voters dial it, and so do we.",
        source="KIP-853, section VotersRecord",
        severity=Severity.WARNING,
        check=Absent(column="impossible_endpoints"),
    ),
    _contract(
        name="voter-or-observer",
        promise="no replica is told as a voter and as an observer in one DescribeQuorum",
        why="Majorities are counted by voters alone.",
        source="KIP-595, section DescribeQuorum; org.apache.kafka.raft.LeaderState",
        severity=Severity.WARNING,
        check=Absent(column="voter_and_observer"),
    ),
    _contract(
        name="high-watermark-never-falls",
        promise="within an epoch the high watermark that DescribeQuorum tells never falls",
        why="What is committed stays committed; `raft-invariant-broken` speaks of it, this says that it was recorded.",
        source="KIP-595; org.apache.kafka.raft.LeaderState",
        severity=Severity.WARNING,
        check=NotBelow(column="polled_high_watermark", floor="previous_polled_high_watermark"),
    ),
    _contract(
        name="high-watermark-within-the-log",
        promise="the high watermark is not beyond the end of the leader's log",
        why="A leader commits only what it has.",
        source="KIP-595; org.apache.kafka.raft.LeaderState",
        severity=Severity.WARNING,
        check=NotBelow(column="leader_log_end_offset", floor="polled_high_watermark"),
    ),
)


@dataclass(slots=True)
class _Polled:
    """The newest poll of one cluster."""

    leader_epoch: int
    high_watermark: int | None


class Events:
    """The table of events; polls are held against those before them, from table to table."""

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
        """All events of one row."""
        before: At | None = None
        for ordinal, event in enumerate(events):
            at: At | None = getattr(event, "at", None)
            self.table.add(
                {
                    "sequence": row.sequence,
                    "ordinal": ordinal,
                    "cluster": row.cluster,
                    "type": event.type,
                    **({} if at is None or at.snapshot else _placed(row, at, before)),
                    **self._told(row.cluster, event),
                }
            )
            before = before if at is None else at

    def _told(self, cluster: str, event: Event) -> dict[str, int | str | None]:
        match event:
            case Undecodable(offset=offset, reason=reason):
                where = "" if offset is None else f"offset {offset}: "
                return {"undecodable": f"{where}{reason}"}
            case PartitionSet() | PartitionChanged():
                return _partition(event)
            case VotersSet(voters=voters):
                return {
                    "malformed_directory_ids": malformed(voter.key.directory_id for voter in voters),
                    "impossible_ids": impossible(voter.key.id for voter in voters),
                    "impossible_endpoints": undialable(one for voter in voters for one in voter.endpoints),
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
            "impossible_ids": impossible([event.leader_id, *(one.key.id for one in replicas)]),
            "voter_and_observer": ", ".join(map(str, sorted(both))) or None,
            "polled_high_watermark": high_watermark,
            "previous_polled_high_watermark": floor,
            "leader_log_end_offset": None if leader is None else leader.log_end_offset,
        }


def _placed(row: Observation, at: At, before: At | None) -> dict[str, int | str | None]:
    """Where a record of the log stands, and where it may stand."""
    base, last = row.base_offset, row.last_offset
    within = row.kind is not Kind.RECORDS or base is None or last is None or base <= at.offset <= last
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
        "impossible_ids": impossible(named),
        "repeated_replicas": repeated(replicas) or repeated(isr),
        "isr_outside_replicas": outside(isr, replicas),
        "in_isr_and_elr": shared(isr, event.elr),
        "leader_outside_isr": None if event.leader is None else outside([event.leader], isr),
    }
