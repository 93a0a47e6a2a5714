"""Blocks of events, applied by column, leave what the same events leave that are applied one by one."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.event_block import UUID_TEXT, EventBlock, NodeLists, PartitionColumns, TopicColumns
from connectors.event_columns import EventColumns, block_events
from connectors.log_event import (
    BrokerRegistered,
    ElrCleared,
    LogAdvanced,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    RecordPosition,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
)
from connectors.metadata import decoder
from connectors.metadata.decoder import decode_records, decode_snapshot_piece
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId
from streaming.replay import table_codec
from streaming.replay.machine import Machine
from tests.hostile.hostile_log import hostile_log, hostile_snapshot
from tests.unit.connectors.metadata.metadata_bytes import tinylog, tinysnapshot
from tests.unit.connectors.metadata.unusual_records import mutated_batches
from tests.unit.streaming.replay.log_script import again, machine

TOPICS = [TopicId(f"{name:_<{UUID_TEXT}}") for name in ("orders", "payments", "audit")]
NODES = st.sampled_from([1, 2, 3, 4, 5, 65_534, 65_535, 70_000])


def node_lists(most: int) -> st.SearchStrategy[tuple[NodeId, ...]]:
    return st.lists(NODES, unique=True, max_size=most).map(tuple)  # type: ignore[arg-type]


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


USUAL = ["set"] * 4 + ["change"] * 6
RARE = ["move", "create", "remove", "clear", "clear-all", "begin", "end", "abort", "broker", "bad", "epoch", "rewind"]
STEPS = st.builds(
    Step,
    what=st.sampled_from(USUAL + RARE),
    topic=st.sampled_from(TOPICS),
    partition=st.integers(0, 3),
    replicas=st.sampled_from([(1, 2, 3), (2, 3, 1), (1, 2, 3, 4)]) | node_lists(6),
    isr=st.none() | st.sampled_from([(1, 2, 3), (2, 1), (1, 3)]) | node_lists(5),
    elr=st.none() | node_lists(2),
    last_known_elr=st.none() | node_lists(1),
    leader=st.none() | st.sampled_from([-1, 1, 1, 2, 3]) | NODES,
    flag=st.none() | st.booleans(),
    epoch=st.sampled_from([0, 0, 0, 1, 7, 2**31 - 1]),
)


class Script:
    """Writes steps as events; the offset and the epoch go on from one observation to the next."""

    def __init__(self, *, snapshot: bool) -> None:
        self.offset, self.epoch, self.snapshot = 0, 1, snapshot

    def events(self, steps: Sequence[Step]) -> list[LogEvent]:
        return [event for step in steps for event in self._events(step)]

    def _at(self) -> RecordPosition:
        self.offset += 1
        now = Millis(self.offset * 1_000)
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
            yield BrokerRegistered(
                at=self._at(),
                id=NodeId(step.partition),
                incarnation_id="x",
                endpoints=(),
                fenced=bool(flag),
                in_controlled_shutdown=False,
            )

    def _partition_event(self, step: Step) -> LogEvent:
        what, topic, partition, replicas, isr, elr, last_known_elr, leader, flag, epoch = step
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
        )


def block_of(events: Sequence[LogEvent], *, snapshot: bool) -> EventBlock:
    """Returns the events as the decoder would."""
    partitions = [each for each in events if isinstance(each, PartitionSet | PartitionChanged)]
    # The decoder puts a topic with an unusual record among the others.
    topics = [each for each in events if isinstance(each, TopicCreated) and each.name != "audit"]
    others = [each for each in events if each not in partitions and each not in topics]

    def column(dtype: Any, values: Iterator[Any]) -> Any:
        return np.array([*values], dtype)

    def lists(name: str) -> NodeLists:
        found = [getattr(each, name) for each in partitions]
        nodes = [node for each in found for node in each or ()]
        return NodeLists(
            lengths=column(np.int32, (-1 if each is None else len(each) for each in found)),
            nodes=np.array(nodes, np.int32),
        )

    columns = PartitionColumns(
        changed=column(np.bool_, (isinstance(each, PartitionChanged) for each in partitions)),
        offset=column(np.int64, (each.at.offset for each in partitions)),
        leader_epoch=column(np.int32, (each.at.leader_epoch for each in partitions)),
        timestamp_ms=column(np.int64, (each.at.timestamp_ms for each in partitions)),
        topic_id=np.frombuffer("".join(each.topic_id for each in partitions).encode(), np.uint8).reshape(-1, UUID_TEXT),
        partition=column(np.int32, (each.partition for each in partitions)),
        replicas=lists("replicas"),
        isr=lists("isr"),
        elr=lists("elr"),
        last_known_elr=lists("last_known_elr"),
        leader=column(np.int32, (-1 if each.leader is None else each.leader for each in partitions)),
        leader_set=column(np.bool_, (isinstance(each, PartitionSet) or each.leader_set for each in partitions)),
        partition_leader_epoch=column(np.int32, (getattr(each, "partition_leader_epoch", -1) for each in partitions)),
        partition_epoch=column(np.int32, (getattr(each, "partition_epoch", -1) for each in partitions)),
        recovering=column(np.int8, (-1 if each.recovering is None else each.recovering for each in partitions)),
    )

    def places(chosen: Sequence[LogEvent]) -> Any:
        return np.array([index for index, each in enumerate(events) if each in chosen], np.int64)

    return EventBlock(
        snapshot=snapshot,
        partitions=columns,
        partition_at=places(partitions),
        topics=TopicColumns(
            offset=column(np.int64, (each.at.offset for each in topics)),
            leader_epoch=column(np.int32, (each.at.leader_epoch for each in topics)),
            timestamp_ms=column(np.int64, (each.at.timestamp_ms for each in topics)),
            topic_id=np.frombuffer("".join(each.topic_id for each in topics).encode(), np.uint8).reshape(-1, UUID_TEXT),
            names="".join(each.name for each in topics).encode(),
            name_end=np.cumsum(column(np.int64, (len(each.name) for each in topics))),
        ),
        topic_at=places(topics),
        others=EventColumns(others).rows,
        other_at=places(others),
    )


class Replays:
    """The same observations, applied in both ways."""

    def __init__(self) -> None:
        self.by_column, self.one_by_one = machine(), machine()

    def apply(self, table: EventColumns) -> None:
        sequence = self.by_column.sequence + 1
        self.by_column.apply(table.items(), sequence=sequence, observed_at_ms=Millis(sequence))
        self.one_by_one.apply([*table.events()], sequence=sequence, observed_at_ms=Millis(sequence))

    def check(self) -> None:
        assert state(self.by_column) == state(self.one_by_one)


def state(of: Machine) -> dict[str, object]:
    logs = {"log": of.log, "snapshot": of.loading}
    return {"quorum": of.quorum(), "undecodable": of.undecodable} | {
        name: (log.image, log.position, log.epoch, log.transaction, log.partitions.topics)
        for name, log in logs.items()
        if log is not None
    }


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PAGE_ROWS", 3), ("PAGE_TOPICS", 1), ("MOST_CHANGES", 1)):
        monkeypatch.setattr(table_codec, name, value)


@given(st.lists(st.lists(STEPS, max_size=12), max_size=5), st.sampled_from(["", "stored", "restored"]))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("small_pages")
def test_a_random_log_is_replayed_alike(observations: list[list[Step]], stored: str) -> None:
    script, replays = Script(snapshot=False), Replays()
    for steps in observations:
        events = script.events(steps)
        block = block_of(events, snapshot=False)
        assert [*block_events(block)] == events
        table = EventColumns()
        table.append_block(block)
        end = Offset(script.offset)
        table.append(
            LogAdvanced(last_offset=end, leader_epoch=None, high_watermark=Offset(end + 1), newest_timestamp_ms=None)
        )
        replays.apply(table)
        replays.check()
        if stored:
            back = again(replays.by_column.to_bytes())
            assert state(back) == state(replays.one_by_one)
            replays.by_column = back if stored == "restored" else replays.by_column


def step(what: str, *, isr: tuple[NodeId, ...] | None = None, leader: int | None = None, epoch: int = 0) -> Step:
    return Step(what, TOPICS[0], 3, (NodeId(1), NodeId(2), NodeId(3)), isr, None, None, leader, None, epoch)


@pytest.mark.parametrize(
    "steps",
    [
        [step("set"), step("change", leader=2), step("set", leader=1)],
        [step("set", epoch=2**31 - 2), step("change", leader=2), step("change", leader=1), step("change")],
        [step("set"), step("remove"), step("set", epoch=5), step("change")],
        [step("set"), step("change", isr=(NodeId(4),))],
    ],
    ids=["set again", "largest epoch", "topic created again", "in-sync replica that is no replica"],
)
def test_several_events_of_one_partition_are_replayed_alike(steps: list[Step]) -> None:
    together, apart, script = Replays(), Replays(), Script(snapshot=False)
    events = script.events(steps)
    table = EventColumns()
    table.append_block(block_of(events, snapshot=False))
    together.apply(table)
    together.check()
    for event in events:
        single = EventColumns()
        single.append_block(block_of([event], snapshot=False))
        apart.apply(single)
        apart.check()


@given(st.lists(st.lists(STEPS, max_size=12), min_size=1, max_size=3), st.lists(STEPS, max_size=12))
def test_a_random_snapshot_replaces_the_log_alike(pieces: list[list[Step]], before: list[Step]) -> None:
    replays = Replays()
    replays.apply(EventColumns(Script(snapshot=False).events(before)))
    script = Script(snapshot=True)
    end, epoch = Offset(1_000), Epoch(9)
    began = SnapshotBegan(at=script._at(), end_offset=end, epoch=epoch, last_contained_timestamp_ms=Millis(77))
    for steps in pieces:
        table = EventColumns([began] if steps is pieces[0] else ())
        table.append_block(block_of(script.events(steps), snapshot=True))
        replays.apply(table)
        replays.by_column = again(replays.by_column.to_bytes())
        replays.check()
    replays.apply(EventColumns([SnapshotEnded(at=script._at(), end_offset=end, epoch=epoch)]))
    replays.check()
    assert replays.by_column.log.position == 999


def decoded(payload: bytes, *, snapshot: bool) -> EventColumns:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "FEWEST_RECORDS", 1)
        if snapshot:
            return decode_snapshot_piece(payload, end_offset=90, epoch=4)
        return decode_records(payload, base_offset=None, last_offset=9, leader_epoch=1, high_watermark=9)


@pytest.mark.parametrize(("file", "snapshot"), [(tinylog, False), (tinysnapshot, True)])
def test_files_that_kafka_wrote_are_replayed_alike(file: Any, snapshot: bool) -> None:
    replays = Replays()
    replays.apply(decoded(file()[0], snapshot=snapshot))
    replays.check()
    assert len(replays.by_column.log.partitions.table.used()) > 1_000


@pytest.mark.parametrize(("file", "snapshot"), [(tinylog, False), (tinysnapshot, True)])
def test_mutated_batches_that_kafka_wrote_are_replayed_alike(file: Any, snapshot: bool) -> None:
    replays = Replays()
    if snapshot:
        began = SnapshotBegan(
            at=RecordPosition(offset=Offset(0), leader_epoch=Epoch(4), timestamp_ms=Millis(0), snapshot=True),
            end_offset=Offset(90),
            epoch=Epoch(4),
            last_contained_timestamp_ms=Millis(1),
        )
        replays.apply(EventColumns([began]))
    for payload in mutated_batches(file()[0], count=40):
        replays.apply(decoded(payload, snapshot=snapshot))
    replays.check()


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_hostile_logs_and_snapshots_are_replayed_alike(first: int) -> None:
    for seed in range(first, first + 100):
        rng, replays = Random(seed), Replays()
        replays.apply(decoded(hostile_log(rng, base_offset=5, secret="s3cret").payload, snapshot=False))
        replays.apply(decoded(hostile_snapshot(rng, secret="s3cret").payload, snapshot=True))
        replays.check()
