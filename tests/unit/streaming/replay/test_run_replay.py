"""Runs of records leave what the same events leave that are applied one by one."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.observations.log_event import (
    LogAdvanced,
    SnapshotBegan,
    SnapshotEnded,
)
from connectors.observations.partition_run import DecodedEvents
from rules.model.identifiers import DirectoryId, Epoch, Millis, NodeId, Offset
from streaming.replay import stored_topics
from streaming.replay.directory_numbers import UNASSIGNED_ID
from streaming.replay.machine import Machine
from tests.conftest import examples
from tests.scripts.log_script import again, machine
from tests.unit.streaming.replay.run_script import TOPICS, Script, Step, runs_of, step

DIRECTORIES = st.none() | st.sampled_from([DirectoryId(one) for one in ("a", "b", "c", UNASSIGNED_ID)])
NODES = st.sampled_from([1, 2, 3, 4, 5, 65_534, 65_535, 70_000])


def node_lists(most: int) -> st.SearchStrategy[tuple[NodeId, ...]]:
    return st.lists(NODES, unique=True, max_size=most).map(tuple)  # type: ignore[arg-type]


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
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.function_scoped_fixture])
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
