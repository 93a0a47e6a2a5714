"""Partitions: what changes, what stays, since when one recovers; against a deliberately dumb oracle."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.log_event import ElrCleared, LogEvent, PartitionChanged, PartitionSet, TopicCreated, TopicRemoved
from rules.model.history import Recovery
from rules.model.identifiers import TopicId
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.ledger import START, Ledger, again, apply, machine


def started() -> tuple[Ledger, Machine]:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.topic("orders")
    ledger.partition("orders", 0, 101, 102, elr=(103,))
    ledger.partition("orders", 7, 101, 102)
    apply(replay, [ledger.read()])
    return ledger, replay


def test_an_unclean_election_is_remembered_with_what_was_in_sync_before() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, isr=(101,), elr=(102,))
    ledger.now_ms = since = START + 60_000
    offset = ledger.change("orders", 0, isr=(103,), elr=(), leader=103, recovering=True).at.offset
    (recovery,) = apply(replay, [ledger.read()]).recovering

    assert (recovery.topic, recovery.partition, recovery.leader) == ("orders", 0, 103)
    assert (recovery.replicas, recovery.isr) == ((101, 102), (103,))
    assert (recovery.since_offset, recovery.since_timestamp_ms, recovery.at_least) == (offset, since, False)
    assert (recovery.previous_isr, recovery.previous_elr) == ((101,), (102,))


@pytest.mark.kip("B007", "B014", "B033", "B038")
def test_recovering_lasts_until_the_record_that_ends_it() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    (began,) = apply(replay, [ledger.read()]).recovering
    replay = again(replay.to_bytes())
    ledger.change("orders", 0, leader=101)
    (later,) = apply(replay, [ledger.read()]).recovering
    assert (later.leader, later.since_offset, later.previous_isr) == (101, began.since_offset, (101, 102))

    ledger.change("orders", 0, isr=(101, 102), recovering=False)
    assert apply(replay, [ledger.read()]).recovering == ()


@pytest.mark.kip("B039")
def test_a_second_unclean_election_adds_to_those_whose_records_may_be_lost() -> None:
    """Kafka writes the new ISR and leader alone: the state was RECOVERING already (PartitionChangeBuilder)."""
    ledger, replay = started()
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [ledger.read()])
    ledger.change("orders", 0, isr=(103,), leader=103)
    (recovery,) = apply(again(replay.to_bytes()), [ledger.read()]).recovering
    assert recovery.previous_isr == (101, 102)
    ledger.change("orders", 7, isr=(103,), leader=103, recovering=True)
    ledger.change("orders", 7, isr=(104,), leader=104)
    assert apply(replay, [ledger.read()]).recovering[1].previous_isr == (101, 102, 103)


def test_grown_in_sync_and_unclean_again_it_is_another_one() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    ledger.change("orders", 0, isr=(102, 101), recovering=False)
    ledger.change("orders", 0, isr=(102,))
    offset = ledger.change("orders", 0, isr=(101,), leader=101, recovering=True).at.offset
    (recovery,) = apply(replay, [ledger.read()]).recovering
    assert (recovery.since_offset, recovery.previous_isr) == (offset, (102,))


@pytest.mark.kip("B045")
def test_a_replica_that_a_reassignment_adds_is_known_as_new() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    ledger.now_ms = added = START + 60_000
    ledger.change("orders", 0, replicas=(101, 102, 104))
    ledger.now_ms += 5_000
    ledger.change("orders", 0, leader=102)
    (recovery,) = apply(replay, [ledger.read()]).recovering
    assert (recovery.added, recovery.added_timestamp_ms) == ((104,), added)
    ledger.change("orders", 0, replicas=(101, 102))
    assert apply(again(replay.to_bytes()), [ledger.read()]).recovering[0].added == ()


@pytest.mark.kip("B041")
def test_no_leader_and_an_unchanged_leader_are_told_apart() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, recovering=True)
    assert apply(replay, [ledger.read()]).recovering[0].leader == 101
    ledger.write(
        PartitionChanged(
            at=ledger.at(),
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
    assert apply(replay, [ledger.read()]).recovering[0].leader is None


def test_a_removed_topic_takes_its_recoveries_along() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, recovering=True)
    ledger.write(TopicRemoved(at=ledger.at(), topic_id=TopicId("id-of-orders")))
    ledger.write(TopicRemoved(at=ledger.at(), topic_id=TopicId("never-seen")))

    assert apply(replay, [ledger.read()]).recovering == ()


def test_a_cleared_elr_is_no_previous_elr() -> None:
    for name, left in ((None, ()), ("orders", ()), ("payments", (103,))):
        ledger, replay = started()
        ledger.write(ElrCleared(at=ledger.at(), topic=name))
        ledger.change("orders", 0, recovering=True)
        assert apply(replay, [ledger.read()]).recovering[0].previous_elr == left


def test_a_change_of_a_partition_that_was_never_told_says_what_it_knows() -> None:
    ledger, replay = started()
    ledger.change("unknown", 3, isr=(101,), recovering=True)
    (recovery,) = apply(replay, [ledger.read()]).recovering

    assert (recovery.topic, recovery.topic_id, recovery.replicas) == (None, "id-of-unknown", ())
    assert recovery.previous_isr is None


def test_what_was_not_touched_is_not_packed_again() -> None:
    ledger, replay = started()
    ledger.change("orders", 0, recovering=True)
    apply(replay, [ledger.read()])
    packed = again(replay.to_bytes())
    before = packed.log.partitions.pack()
    ledger.broker(101)
    assert len(apply(packed, [ledger.read()]).recovering) == 1
    assert packed.log.partitions.pack() is before

    ledger.change("orders", 0, isr=(102,))
    apply(packed, [ledger.read()])
    assert packed.log.partitions.pack() is not before


# --- the oracle ------------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """One record, as few words as the oracle needs."""

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
    """Who was in sync, and who eligible, before it recovered; after a second unclean election, before either."""
    was: dict[str, Any] = dict(before or {"isr": (), "elr": ()})
    if since is None:
        return (was["isr"], was["elr"]) if before else (None, None)
    isr, elr, now = since.previous_isr, since.previous_elr, cast(tuple[int, ...], state["isr"])
    holders = {*was["isr"], *was["elr"]}
    if isr is None or elr is None or not now or not holders or holders & {*now}:
        return isr, elr
    return (*isr, *(n for n in was["isr"] if n not in isr)), (*elr, *(n for n in was["elr"] if n not in elr))


def merged(before: dict[str, object] | None, event: PartitionSet | PartitionChanged) -> dict[str, object]:
    """The partition after this record: what it leaves out is unchanged, and the epochs count the records."""
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
    """Whether this partition recovers at the log's end: reads the log from its beginning, for one partition alone."""
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
TOLD = st.builds(
    Told,
    topic=st.sampled_from(["a", "b"]),
    partition=st.integers(0, 2),
    isr=st.none() | NODES,
    elr=st.none() | NODES,
    leader=st.none() | st.sampled_from([101, 102, 103]),
    recovering=st.none() | st.booleans(),
    what=st.sampled_from(["change", "change", "change", "set", "create", "remove", "clear", "clear-all"]),
)


def write(ledger: Ledger, told: Told) -> None:
    topic = TopicId(f"id-of-{told.topic}")
    if told.what == "change":
        ledger.change(
            told.topic, told.partition, isr=told.isr, elr=told.elr, leader=told.leader, recovering=told.recovering
        )
    elif told.what == "set":
        ledger.partition(told.topic, told.partition, 101, *(told.isr or ()), recovering=bool(told.recovering))
    elif told.what == "create":
        ledger.topic(told.topic)
    elif told.what == "remove":
        ledger.write(TopicRemoved(at=ledger.at(), topic_id=topic))
    else:
        ledger.write(ElrCleared(at=ledger.at(), topic=told.topic if told.what == "clear" else None))


@given(st.lists(st.lists(TOLD, max_size=6), max_size=6), st.booleans())
def test_recoveries_are_those_of_the_oracle(observations: list[list[Told]], store: bool) -> None:
    ledger, replay = Ledger(), machine()
    log: list[LogEvent] = []
    for told in observations:
        for one in told:
            write(ledger, one)
        log += ledger.events
        apply(replay, [ledger.read()])
        replay = again(replay.to_bytes()) if store else replay

    expected = [oracle(log, f"id-of-{topic}", partition) for topic in ("a", "b") for partition in range(3)]
    shown = sorted(replay.quorum().recovering, key=lambda one: (one.topic_id, one.partition))
    assert shown == [one for one in expected if one is not None]
