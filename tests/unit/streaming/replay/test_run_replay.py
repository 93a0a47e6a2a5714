"""Runs of records leave what the same events leave that are applied one by one."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.observations.log_event import (
    ElrCleared,
    LogAdvanced,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    SnapshotBegan,
    SnapshotEnded,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    Undecodable,
)
from connectors.observations.partition_run import DecodedEvents, Directories, PartitionRun, PartitionValues, RunRow
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset, TopicId
from rules.model.membership import BrokerRegistration, RecordPosition
from streaming.replay import stored_topics
from streaming.replay.directory_numbers import UNASSIGNED_ID
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.log_script import again, machine

TOPICS = [TopicId(f"{name:_<{22}}") for name in ("orders", "payments", "audit")]
DIRECTORIES = st.none() | st.sampled_from([DirectoryId(one) for one in ("a", "b", "c", UNASSIGNED_ID)])
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
    directories: Directories
    moved: tuple[NodeId, ...] | None = None
    """The replicas that are added and removed."""


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
    directories=st.just(()) | st.lists(DIRECTORIES, max_size=4).map(tuple),
    moved=st.none() | st.just(()) | node_lists(2),
)


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


class Replays:
    """The same observations, applied in both ways."""

    def __init__(self) -> None:
        self.by_run, self.one_by_one = machine(), machine()

    def apply(self, table: DecodedEvents) -> None:
        sequence = self.by_run.sequence + 1
        self.by_run.apply(table, sequence=sequence, observed_at_ms=Millis(sequence))
        self.one_by_one.apply([*table.events()], sequence=sequence, observed_at_ms=Millis(sequence))

    def check(self) -> None:
        assert state(self.by_run) == state(self.one_by_one)


def state(of: Machine) -> dict[str, object]:
    logs = {"log": of.log, "snapshot": of.loading}
    return {"quorum": of.quorum(), "undecodable": of.undecodable} | {
        name: (log.image, log.position, log.epoch, log.transaction, log.partitions.topics)
        for name, log in logs.items()
        if log is not None
    }


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_topics, "PAGE_PARTITIONS", 3)


@given(st.lists(st.lists(STEPS, max_size=12), max_size=5), st.sampled_from(["", "stored", "restored"]))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("small_pages")
def test_a_random_log_is_replayed_alike(observations: list[list[Step]], stored: str) -> None:
    script, replays = Script(snapshot=False), Replays()
    for steps in observations:
        events = script.events(steps)
        table = runs_of(events)
        assert [*table.events()] == events
        end = Offset(script.offset)
        table.append(
            LogAdvanced(last_offset=end, leader_epoch=None, high_watermark=Offset(end + 1), newest_timestamp_ms=None)
        )
        replays.apply(table)
        replays.check()
        if stored:
            back = again(replays.by_run.to_bytes())
            assert state(back) == state(replays.one_by_one)
            replays.by_run = back if stored == "restored" else replays.by_run


def step(what: str, *, isr: tuple[NodeId, ...] | None = None, leader: int | None = None, epoch: int = 0) -> Step:
    return Step(what, TOPICS[0], 3, (NodeId(1), NodeId(2), NodeId(3)), isr, None, None, leader, None, epoch, ())


@pytest.mark.parametrize(
    "steps",
    [
        [step("set"), step("change", leader=2), step("set", leader=1)],
        [step("set", epoch=2**31 - 2), step("change", leader=2), step("change", leader=1), step("change")],
        [step("set"), step("remove"), step("set", epoch=5), step("change")],
        [step("set"), step("change", isr=(NodeId(4),))],
        [step("set"), step("begin"), step("change", leader=2), step("abort"), step("change", isr=(NodeId(1),))],
    ],
    ids=["set again", "largest epoch", "topic created again", "in-sync replica that is no replica", "aborted"],
)
def test_several_events_of_one_partition_are_replayed_alike(steps: list[Step]) -> None:
    together, apart, script = Replays(), Replays(), Script(snapshot=False)
    events = script.events(steps)
    together.apply(runs_of(events))
    together.check()
    for event in events:
        apart.apply(runs_of([event]))
        apart.check()


@pytest.mark.parametrize("again_from", range(4))
def test_a_run_that_was_applied_is_delivered_again_without_effect(again_from: int) -> None:
    replays, script = Replays(), Script(snapshot=False)
    events = script.events([step("set"), step("change", leader=2), step("change", isr=(NodeId(2),)), step("change")])
    end = Offset(events[-1].at.offset)  # type: ignore[union-attr]
    advanced = LogAdvanced(last_offset=end, leader_epoch=None, high_watermark=Offset(end + 1), newest_timestamp_ms=None)
    replays.apply(DecodedEvents([*runs_of(events), advanced]))
    replays.check()
    once = replays.by_run.log.partitions.topics[TOPICS[0]].partitions[3]

    replays.apply(DecodedEvents([*runs_of(events[again_from:]), advanced]))

    replays.check()
    assert replays.by_run.log.partitions.topics[TOPICS[0]].partitions[3] == once
    assert once.partition_epoch == 3


@given(st.lists(st.lists(STEPS, max_size=12), min_size=1, max_size=3), st.lists(STEPS, max_size=12))
def test_a_random_snapshot_replaces_the_log_alike(pieces: list[list[Step]], before: list[Step]) -> None:
    replays = Replays()
    replays.apply(DecodedEvents(Script(snapshot=False).events(before)))
    script = Script(snapshot=True)
    end, epoch = Offset(1_000), Epoch(9)
    began = SnapshotBegan(at=script._at(), end_offset=end, epoch=epoch, last_contained_timestamp_ms=Millis(77))
    for steps in pieces:
        first = [began] if steps is pieces[0] else []
        replays.apply(DecodedEvents([*first, *runs_of(script.events(steps))]))
        replays.by_run = again(replays.by_run.to_bytes())
        replays.check()
    replays.apply(DecodedEvents([SnapshotEnded(at=script._at(), end_offset=end, epoch=epoch)]))
    replays.check()
    assert replays.by_run.log.position == 999
