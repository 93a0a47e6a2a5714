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


def test_clearing_the_last_known_elr_alone_is_a_change_of_the_partition() -> None:
    script, replay = started()
    script.change("orders", 0, isr=(102,), elr=(), last_known_elr=(103,), leader=102, recovering=True)
    script.write(ElrCleared(at=script.at(), topic="orders"))
    (recovery,) = apply(replay, [script.read()]).recovering
    assert recovery.partition_epoch == 2


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
