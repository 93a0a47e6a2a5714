"""Partitions: changes, and since when one is recovering; compared with a simple reference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.observations.log_event import (
    ElrCleared,
    LogEvent,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
)
from rules.model.history import Recovery
from rules.model.identifiers import TopicId
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.log_script import START, LogScript, again, apply, machine

pytestmark = pytest.mark.kip(
    "B016",
    "B002",
    "B005",
    "B007",
    "B010",
    "B014",
    "B033",
    "B034",
    "B036",
    "B038",
    "B039",
    "B041",
    "B044",
    "B045",
    "B046",
    "D118",
    "K047",
)


def started() -> tuple[LogScript, Machine]:
    script, replay = LogScript(), machine()
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, elr=(103,))
    script.partition("orders", 7, 101, 102)
    apply(replay, [script.read()])
    return script, replay


def test_an_unclean_election_keeps_the_previous_in_sync_replicas() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(101,), elr=(102,))
    script.now_ms = since = START + 60_000
    offset = script.change("orders", 0, isr=(103,), elr=(), leader=103, recovering=True).at.offset
    (recovery,) = apply(replay, [script.read()]).recovering

    assert (recovery.topic, recovery.partition, recovery.leader) == ("orders", 0, 103)
    assert (recovery.replicas, recovery.isr) == ((101, 102), (103,))
    assert (recovery.since_offset, recovery.since_timestamp_ms, recovery.at_least) == (offset, since, False)
    assert (recovery.previous_isr, recovery.previous_elr) == ((101,), (102,))


def test_a_recovery_that_begins_without_an_election_is_no_unclean_election() -> None:
    """Kafka writes no such record: recovery-invariant-broken reports it."""
    script, replay = started()
    script.change("orders", 0, recovering=True)
    script.change("orders", 7, isr=(102,), leader=102, recovering=True)
    quorum = apply(replay, [script.read()])

    assert [(one.partition, one.elected) for one in quorum.recovering] == [(0, False), (7, True)]
    assert [(one.elections, one.partitions) for one in quorum.history.unclean] == [(1, (7,))]


@pytest.mark.kip("B007", "B014", "B033", "B038")
def test_a_partition_is_recovering_until_the_record_that_ends_it() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    (began,) = apply(replay, [script.read()]).recovering
    replay = again(replay.to_bytes())
    script.change("orders", 0, leader=101)
    (later,) = apply(replay, [script.read()]).recovering
    assert (later.leader, later.since_offset, later.previous_isr) == (101, began.since_offset, (101, 102))

    script.change("orders", 0, isr=(101, 102), recovering=False)
    assert apply(replay, [script.read()]).recovering == ()


@pytest.mark.kip("B039")
def test_a_second_unclean_election_adds_its_previous_in_sync_replicas() -> None:
    """Kafka writes only the new ISR and leader: the state was RECOVERING already (PartitionChangeBuilder)."""
    script, replay = started()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    script.change("orders", 0, isr=(103,), leader=103)
    (recovery,) = apply(again(replay.to_bytes()), [script.read()]).recovering
    assert recovery.previous_isr == (101, 102)
    first = script.change("orders", 7, isr=(103,), leader=103, recovering=True)
    script.change("orders", 7, isr=(104,), leader=104)
    recovery = apply(replay, [script.read()]).recovering[1]
    assert (recovery.since_offset, recovery.previous_isr) == (first.at.offset, (101, 102, 103))


def test_a_recovery_has_the_epochs_of_its_partition_and_counts_its_leaders() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.change("orders", 0, isr=(102,))
    script.change("orders", 0, leader=102)
    script.change("orders", 0, leader=101)
    (recovery,) = apply(replay, [script.read()]).recovering
    assert (recovery.leader_epoch, recovery.partition_epoch, recovery.leader_changes) == (3, 4, 1)


def test_a_second_unclean_election_keeps_the_eligible_replicas_before_the_first() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), elr=(), leader=102, recovering=True)
    script.change("orders", 0, isr=(104,), leader=104)
    (recovery,) = apply(replay, [script.read()]).recovering
    assert (recovery.previous_isr, recovery.previous_elr) == ((101, 102), (103,))


def test_in_sync_replicas_that_join_a_recovery_are_not_those_before_it() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.change("orders", 0, isr=(102, 103))
    script.change("orders", 0, leader=103)
    script.change("unknown", 3, isr=(101,), leader=101, recovering=True)
    script.change("unknown", 3, isr=(102,), leader=102)
    unknown, known = apply(replay, [script.read()]).recovering
    assert (known.previous_isr, unknown.previous_isr) == ((101, 102), None)


def test_an_unclean_election_after_the_isr_grew_adds_the_grown_isr() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.change("orders", 0, isr=(102, 101), recovering=False)
    script.change("orders", 0, isr=(102,))
    offset = script.change("orders", 0, isr=(101,), leader=101, recovering=True).at.offset
    (recovery,) = apply(replay, [script.read()]).recovering
    assert (recovery.since_offset, recovery.previous_isr) == (offset, (102,))


@pytest.mark.kip("B045")
def test_a_replica_added_by_a_reassignment_is_marked_as_added() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    script.now_ms = added = START + 60_000
    script.change("orders", 0, replicas=(101, 102, 104))
    script.now_ms += 5_000
    script.change("orders", 0, leader=102)
    (recovery,) = apply(replay, [script.read()]).recovering
    assert (recovery.added, recovery.added_timestamp_ms) == ((104,), added)
    script.change("orders", 0, replicas=(101, 102))
    assert apply(again(replay.to_bytes()), [script.read()]).recovering[0].added == ()


@pytest.mark.kip("B041")
def test_no_leader_differs_from_an_unchanged_leader() -> None:
    script, replay = started()
    script.change("orders", 0, recovering=True)
    assert apply(replay, [script.read()]).recovering[0].leader == 101
    script.write(
        PartitionChanged(
            at=script.at(),
            topic_id=TopicId("id-of-orders"),
            partition=0,
            replicas=None,
            isr=None,
            elr=None,
            leader=None,
            leader_set=True,
            recovering=None,
        )
    )
    assert apply(replay, [script.read()]).recovering[0].leader is None


def test_removing_a_topic_removes_its_recoveries() -> None:
    script, replay = started()
    script.change("orders", 0, recovering=True)
    script.write(TopicRemoved(at=script.at(), topic_id=TopicId("id-of-orders")))
    script.write(TopicRemoved(at=script.at(), topic_id=TopicId("never-seen")))

    assert apply(replay, [script.read()]).recovering == ()


def test_a_topic_that_is_removed_later_takes_its_recoveries_along() -> None:
    script, replay = started()
    script.change("orders", 0, recovering=True)
    assert apply(replay, [script.read()]).recovering
    script.write(TopicRemoved(at=script.at(), topic_id=TopicId("id-of-orders")))
    assert apply(replay, [script.read()]).recovering == ()


def test_clearing_the_last_known_elr_alone_is_a_change_of_the_partition() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), elr=(), last_known_elr=(103,), leader=102, recovering=True)
    script.write(ElrCleared(at=script.at(), topic="orders"))
    (recovery,) = apply(replay, [script.read()]).recovering
    assert recovery.partition_epoch == 2


def test_a_cleared_elr_is_not_a_previous_elr() -> None:
    for name, left in ((None, ()), ("orders", ()), ("payments", (103,))):
        script, replay = started()
        script.write(ElrCleared(at=script.at(), topic=name))
        script.change("orders", 0, recovering=True)
        assert apply(replay, [script.read()]).recovering[0].previous_elr == left


def test_a_change_of_an_unknown_partition_is_applied_with_unknown_fields() -> None:
    script, replay = started()
    script.change("unknown", 3, isr=(101,), recovering=True)
    (recovery,) = apply(replay, [script.read()]).recovering

    assert (recovery.topic, recovery.topic_id, recovery.replicas) == (None, "id-of-unknown", ())
    assert recovery.previous_isr is None


def test_unchanged_topics_are_not_packed_again() -> None:
    script, replay = started()
    script.change("orders", 0, recovering=True)
    apply(replay, [script.read()])
    packed = again(replay.to_bytes())
    before = packed.log.partitions.pack()
    script.broker(101)
    assert len(apply(packed, [script.read()]).recovering) == 1
    assert packed.log.partitions.pack() is before

    script.change("orders", 0, isr=(102,))
    apply(packed, [script.read()])
    assert packed.log.partitions.pack() is not before


# --- the oracle ------------------------------------------------------------------------------------------------------


@dataclass
class PartitionStep:
    """One record with the fields that the reference needs."""

    topic: str
    partition: int
    isr: tuple[int, ...] | None
    elr: tuple[int, ...] | None
    leader: int | None
    recovering: bool | None
    what: str


def held_before(
    since: Recovery | None, before: dict[str, object] | None, state: dict[str, object]
) -> tuple[object, object]:
    """Returns the in-sync and eligible replicas before it was recovering; with two unclean elections, before either."""
    was: dict[str, Any] = dict(before or {"isr": (), "elr": ()})
    if since is None:
        return (was["isr"], was["elr"]) if before else (None, None)
    isr, elr, now = since.previous_isr, since.previous_elr, cast(tuple[int, ...], state["isr"])
    holders = {*was["isr"], *was["elr"]}
    if isr is None or elr is None or not now or not holders or holders & {*now}:
        return isr, elr
    return (*isr, *(n for n in was["isr"] if n not in isr)), (*elr, *(n for n in was["elr"] if n not in elr))


def merged(before: dict[str, object] | None, event: PartitionSet | PartitionChanged) -> dict[str, object]:
    """Returns the partition after this record: absent fields are unchanged, and epochs count the records."""
    state = dict(before or {"replicas": (), "isr": (), "elr": (), "leader": None, "leader_epoch": None, "epoch": None})
    for field in ("replicas", "isr", "elr"):
        if getattr(event, field) is not None:
            state[field] = getattr(event, field)
    if isinstance(event, PartitionSet) or event.leader_set:
        state["leader"] = event.leader
    if isinstance(event, PartitionSet):
        state |= {"leader_epoch": 0, "epoch": 0}
    elif isinstance(state["epoch"], int):
        state |= {"leader_epoch": cast(int, state["leader_epoch"]) + event.leader_set, "epoch": state["epoch"] + 1}
    return state


def oracle(log: Sequence[LogEvent], topic: str, partition: int) -> Recovery | None:
    """Returns the partition's recovery at the end of the log: reads the log from its start for one partition."""
    name: str | None = None
    state: dict[str, object] | None = None
    since: Recovery | None = None
    for event in log:
        if isinstance(event, TopicCreated) and event.topic_id == topic:
            name = event.name
            since = replace(since, topic=name) if since else None
        elif isinstance(event, TopicRemoved) and event.topic_id == topic:
            name, state, since = None, None, None
        elif isinstance(event, ElrCleared) and event.topic in (None, name) and state:
            if state["elr"] and isinstance(state["epoch"], int):
                state["epoch"] += 1
                since = replace(since, partition_epoch=state["epoch"]) if since else None
            state["elr"] = ()
        elif isinstance(event, PartitionSet | PartitionChanged) and (event.topic_id, event.partition) == (
            topic,
            partition,
        ):
            before = dict(state) if state else None
            led = before["leader"] if before else None
            state = merged(before, event)
            elected = state["leader"] not in (None, led)
            going_on = since is not None and event.recovering is not False
            if going_on or event.recovering:
                isr, elr = held_before(since, before, state)
                has, had = state["replicas"], since.replicas if since else ()
                new = [node for node in has if had and node not in had]  # type: ignore[attr-defined]
                since = Recovery(
                    topic_id=TopicId(topic),
                    topic=name,
                    partition=partition,
                    replicas=state["replicas"],  # type: ignore[arg-type]
                    isr=state["isr"],  # type: ignore[arg-type]
                    leader=state["leader"],  # type: ignore[arg-type]
                    since_offset=since.since_offset if since else event.at.offset,
                    since_timestamp_ms=since.since_timestamp_ms if since else event.at.timestamp_ms,
                    at_least=False,
                    previous_isr=isr,  # type: ignore[arg-type]
                    previous_elr=elr,  # type: ignore[arg-type]
                    added=tuple(n for n in (*(since.added if since else ()), *new) if n in has),  # type: ignore[operator]
                    added_timestamp_ms=event.at.timestamp_ms if new else (since.added_timestamp_ms if since else None),
                    leader_epoch=state["leader_epoch"],  # type: ignore[arg-type]
                    partition_epoch=state["epoch"],  # type: ignore[arg-type]
                    leader_changes=since.leader_changes + elected if since else 0,
                    elected=since.elected if since else None if isinstance(event, PartitionSet) else elected,
                )
            else:
                since = None
    return since


NODES = st.lists(st.sampled_from([101, 102, 103]), unique=True, max_size=3).map(tuple)
RECORDS = st.builds(
    PartitionStep,
    topic=st.sampled_from(["a", "b"]),
    partition=st.integers(0, 2),
    isr=st.none() | NODES,
    elr=st.none() | NODES,
    leader=st.none() | st.sampled_from([101, 102, 103]),
    recovering=st.none() | st.booleans(),
    what=st.sampled_from(["change", "change", "change", "set", "create", "remove", "clear", "clear-all"]),
)


def write(script: LogScript, step: PartitionStep) -> None:
    topic = TopicId(f"id-of-{step.topic}")
    if step.what == "change":
        script.change(
            step.topic, step.partition, isr=step.isr, elr=step.elr, leader=step.leader, recovering=step.recovering
        )
    elif step.what == "set":
        script.partition(step.topic, step.partition, 101, *(step.isr or ()), recovering=bool(step.recovering))
    elif step.what == "create":
        script.topic(step.topic)
    elif step.what == "remove":
        script.write(TopicRemoved(at=script.at(), topic_id=topic))
    else:
        script.write(ElrCleared(at=script.at(), topic=step.topic if step.what == "clear" else None))


@pytest.mark.kip("B005", "B007", "B009", "B010", "B014", "B016", "B024", "B026", "B033", "B034", "B035", "B037", "B038")
@pytest.mark.kip("B039", "B041", "B042", "B043", "B044", "B046", "B052", "D118", "K047")
@given(st.lists(st.lists(RECORDS, max_size=6), max_size=6), st.booleans())
def test_recoveries_equal_those_of_the_reference(observations: list[list[PartitionStep]], store: bool) -> None:
    script, replay = LogScript(), machine()
    log: list[LogEvent] = []
    for steps in observations:
        for step in steps:
            write(script, step)
        log += script.events
        apply(replay, [script.read()])
        replay = again(replay.to_bytes()) if store else replay

    expected = [oracle(log, f"id-of-{topic}", partition) for topic in ("a", "b") for partition in range(3)]
    found = sorted(replay.quorum().recovering, key=lambda one: (one.topic_id, one.partition))
    assert found == [one for one in expected if one is not None]
