"""Runs of partition records."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from connectors.observations.log_event import (
    ElrCleared,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
)
from connectors.observations.partition_run import DecodedEvents, Directories, PartitionRun, PartitionValues, RunRow
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import BrokerRegistration, RecordPosition

TOPICS = [TopicId(f"{name:_<{22}}") for name in ("orders", "payments", "audit")]


class Step(NamedTuple):
    """One record of a script, with all the fields that any record may need."""

    what: str
    topic: TopicId
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...] | None
    elr: tuple[NodeId, ...] | None
    last_known_elr: tuple[NodeId, ...] | None
    leader: int | None
    flag: bool | None
    epoch: int
    directories: Directories
    moved: tuple[NodeId, ...] | None = None
    """The replicas that are added and removed."""


class Script:
    """Writes steps as events; the offset and the epoch go on from one observation to the next."""

    def __init__(self, *, snapshot: bool) -> None:
        self.offset, self.epoch, self.snapshot = 0, 1, snapshot

    def events(self, steps: Sequence[Step]) -> list[LogEvent]:
        return [event for step in steps for event in self._events(step)]

    def _at(self) -> RecordPosition:
        self.offset += 1
        # A batch has one timestamp: some records share it.
        now = Millis(self.offset // 4 * 1_000)
        return RecordPosition(
            offset=Offset(self.offset), leader_epoch=Epoch(self.epoch), timestamp_ms=now, snapshot=self.snapshot
        )

    def _events(self, step: Step) -> Iterator[LogEvent]:
        what, topic, flag = step.what, step.topic, step.flag
        if what in ("set", "change", "move"):
            yield self._partition_event(step)
        elif what == "epoch":
            self.epoch += 1 if flag else -1 if flag is None and self.epoch > 1 else 0
        elif what == "rewind":
            self.offset = max(self.offset - 3, 0)
        elif what == "bad":
            yield Undecodable(offset=Offset(self.offset), reason="invalid", length=3)
        elif what == "create":
            yield TopicCreated(at=self._at(), topic_id=topic, name=topic.strip("_"))
        elif what == "remove":
            yield TopicRemoved(at=self._at(), topic_id=topic)
        elif what in ("clear", "clear-all"):
            yield ElrCleared(at=self._at(), topic=topic.strip("_") if what == "clear" else None)
        elif what == "begin":
            yield TransactionBegan(at=self._at(), name=None)
        elif what in ("end", "abort"):
            yield TransactionEnded(at=self._at(), aborted=what == "abort")
        else:
            yield BrokerRegistration(
                at=self._at(),
                id=NodeId(step.partition),
                incarnation_id="x",
                endpoints=(),
                fenced=bool(flag),
                in_controlled_shutdown=False,
                log_dirs=tuple(one for one in step.directories if one is not None),
            )

    def _partition_event(self, step: Step) -> LogEvent:
        what, topic, partition, replicas, isr, elr, last_known_elr, leader, flag, epoch, directories, moved = step
        node = None if leader is None or leader < 0 else NodeId(leader)
        if what == "set":
            return PartitionSet(
                at=self._at(),
                topic_id=topic,
                partition=partition,
                replicas=replicas,
                isr=replicas if isr is None else isr,
                elr=elr or (),
                last_known_elr=last_known_elr or (),
                leader=node,
                partition_leader_epoch=epoch,
                partition_epoch=epoch,
                recovering=bool(flag) and partition == 0,
                directories=directories,
                adding=moved or (),
            )
        return PartitionChanged(
            at=self._at(),
            topic_id=topic,
            partition=partition,
            replicas=replicas if what == "move" else None,
            isr=isr,
            elr=elr,
            last_known_elr=last_known_elr,
            leader=node,
            leader_set=leader is not None,
            recovering=flag if partition < 2 else None,
            directories=directories or None,
            adding=moved if flag else None,
            removing=None if flag else moved,
        )


def runs_of(events: Sequence[LogEvent]) -> DecodedEvents:
    """Returns the events as the decoder would: consecutive ones of topics and partitions of an epoch together."""
    items = DecodedEvents()
    for event in events:
        if not isinstance(event, PartitionSet | PartitionChanged | TopicCreated):
            items.append(event)
            continue
        at, last = event.at, items[-1] if items else None
        # All records of a batch have its timestamp, as all that Kafka writes.
        base, epoch = Offset(at.offset), at.leader_epoch
        run = PartitionRun(base_offset=base, leader_epoch=epoch, timestamp_ms=at.timestamp_ms, snapshot=at.snapshot)
        if (
            isinstance(last, PartitionRun)
            and last.leader_epoch == epoch
            and at.offset == last.base_offset + len(last)
            and last.timestamp_ms == at.timestamp_ms
        ):
            run = last
        else:
            items.append(run)
        run.rows.append(row_of(event, at.offset - run.base_offset))
    return items


def row_of(event: PartitionSet | PartitionChanged | TopicCreated, delta: int) -> RunRow:
    if isinstance(event, TopicCreated):
        return delta, event.topic_id, 0, event.name, None, None, None
    topic_id, partition, directories = event.topic_id, event.partition, event.directories or None
    values = PartitionValues(
        event.replicas,
        event.isr,
        event.elr,
        event.last_known_elr,
        event.leader,
        leader_set=isinstance(event, PartitionSet) or event.leader_set,
        recovering=event.recovering,
        adding=event.adding,
        removing=event.removing,
    )
    if isinstance(event, PartitionSet):
        return delta, topic_id, partition, values, event.partition_leader_epoch, event.partition_epoch, directories
    return delta, topic_id, partition, values, None, None, directories


def step(what: str, *, isr: tuple[NodeId, ...] | None = None, leader: int | None = None, epoch: int = 0) -> Step:
    return Step(what, TOPICS[0], 3, (NodeId(1), NodeId(2), NodeId(3)), isr, None, None, leader, None, epoch, ())
