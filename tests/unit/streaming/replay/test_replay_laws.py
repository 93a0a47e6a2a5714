"""Laws that hold for every history: re-delivery, remembering, batching, and a snapshot in place of the log."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.log_event import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerRegistered,
    ElrCleared,
    LogEvent,
    TopicRemoved,
)
from rules.model.identifiers import Millis, NodeId, TopicId
from rules.model.monitoring import ObservationSource, Reason
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import DecodedRow
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.ledger import Ledger, again, apply, machine, poll, replica, unseen

STEP = st.sampled_from(
    [
        "leader", "kraft", "voters-3", "voters-2", "controller", "broker", "fence", "unfence", "unregister", "topic",
        "partition", "shrink", "unclean", "recovered", "remove", "clear-elr", "begin", "end", "abort", "noop",
    ]
)  # fmt: skip
LOOK = st.sampled_from(["poll", "no-leader", "refused", "denied", "silence"])
HISTORY = st.lists(st.tuples(st.lists(STEP, max_size=5), st.integers(0, 2), st.lists(LOOK, max_size=2)), max_size=12)


def write(ledger: Ledger, step: str) -> None:
    orders = TopicId("id-of-orders")
    steps: dict[str, Callable[[], object]] = {
        "leader": lambda: ledger.leader(1 + ledger.epoch % 3, ledger.epoch + 1),
        "kraft": lambda: ledger.kraft(1),
        "voters-3": lambda: ledger.voters("1-a", "2-b", "3-c"),
        "voters-2": lambda: ledger.voters("1-a", "2-z"),
        "controller": lambda: ledger.controller(2),
        "broker": lambda: ledger.broker(101),
        "fence": lambda: ledger.broker_change(101, fenced=True),
        "unfence": lambda: ledger.broker_change(101, fenced=False),
        "unregister": lambda: ledger.write(BrokerUnregistered(at=ledger.at(), id=NodeId(101))),
        "topic": lambda: ledger.topic("orders"),
        "partition": lambda: ledger.partition("orders", 0, 101, 102, elr=(103,)),
        "shrink": lambda: ledger.change("orders", 0, isr=(101,), elr=(102,)),
        "unclean": lambda: ledger.change("orders", 0, isr=(102,), elr=(), leader=102, recovering=True),
        "recovered": lambda: ledger.change("orders", 0, recovering=False),
        "remove": lambda: ledger.write(TopicRemoved(at=ledger.at(), topic_id=orders)),
        "clear-elr": lambda: ledger.write(ElrCleared(at=ledger.at(), topic=None)),
        "begin": ledger.begin,
        "end": ledger.end,
        "abort": lambda: ledger.end(aborted=True),
        "noop": lambda: ledger.noops(1),
    }
    steps[step]()


def look(ledger: Ledger, what: str) -> DecodedRow:
    if what == "poll":
        return ledger.row(poll(replica("1-a"), replica("2-b", end=ledger.offset), epoch=ledger.epoch, hw=ledger.offset))
    if what == "silence":
        return ledger.row(after_ms=20_000)
    reason = {"no-leader": Reason.NO_LEADER, "refused": Reason.REFUSED, "denied": Reason.DENIED}[what]
    return ledger.row(unseen(reason, f"c{1 + ledger.sequence % 3}:9093", ObservationSource.QUORUM))


def rows_of(history: list[tuple[list[str], int, list[str]]]) -> list[DecodedRow]:
    ledger = Ledger()
    ledger.leader(1)
    rows = []
    for steps, behind, looks in history:
        for step in steps:
            write(ledger, step)
        rows.append(ledger.read(behind=behind))
        rows += [look(ledger, what) for what in looks]
    return rows


@pytest.mark.kip("K048")
@given(HISTORY, st.data())
def test_a_prefix_delivered_twice_counts_once(
    history: list[tuple[list[str], int, list[str]]], data: st.DataObject
) -> None:
    rows = rows_of(history)
    again_from = data.draw(st.integers(0, len(rows)))
    again_until = data.draw(st.integers(again_from, len(rows)))
    once, twice = machine(), machine()

    expected = apply(once, rows)
    assert apply(twice, [*rows[:again_until], *rows[again_from:]]) == expected
    assert twice.to_bytes() == once.to_bytes()


def applied(to: Machine, row: DecodedRow) -> bool:
    """Whether the machine took this observation, or had it already."""
    return to.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)


@pytest.mark.kip("K048")
@given(HISTORY, st.data())
def test_remembering_in_the_middle_changes_nothing(
    history: list[tuple[list[str], int, list[str]]], data: st.DataObject
) -> None:
    rows = rows_of(history)
    stored = data.draw(st.sets(st.integers(0, len(rows))))
    whole, interrupted = machine(), machine()
    for number, row in enumerate(rows):
        if number in stored:
            interrupted = again(interrupted.to_bytes())
            for before in rows[:number]:
                assert not applied(interrupted, before), "what came before it was stored counts once"
        apply(whole, [row])
        apply(interrupted, [row])
        assert interrupted.quorum() == whole.quorum()
    assert interrupted.to_bytes() == whole.to_bytes()


@given(HISTORY, st.data())
def test_a_range_that_is_fetched_again_changes_only_when_the_log_was_seen(
    history: list[tuple[list[str], int, list[str]]], data: st.DataObject
) -> None:
    rows = rows_of([(steps, 0, []) for steps, _, _ in history])
    replay = machine()
    before = apply(replay, rows)
    if not rows:
        return
    start = data.draw(st.integers(0, len(rows) - 1))
    refetched = tuple(event for row in rows[start:] for event in row.events)
    after = apply(replay, [DecodedRow(10_000, rows[-1].observed_at_ms, refetched)])

    assert after == replace(before, log_seen_at_ms=after.log_seen_at_ms)


def told(quorum: Quorum) -> object:
    """What the log says of now, without since when: a snapshot does not tell that."""
    return (
        quorum.committed.voters if quorum.committed else None,
        quorum.kraft_version,
        quorum.metadata_version,
        {node: (one.incarnation_id, one.endpoints) for node, one in quorum.controllers.items()},
        {node: (one.incarnation_id, one.fenced, one.in_controlled_shutdown) for node, one in quorum.brokers.items()},
        {(one.topic_id, one.partition): (one.topic, one.replicas, one.isr, one.leader) for one in quorum.recovering},
        (quorum.last_offset, quorum.newest_timestamp_ms),
    )


def image_of(ledger: Ledger, log: list[LogEvent]) -> list[LogEvent]:
    """The records that a snapshot at this place holds: the log's, compacted the dumb way (the newest of each)."""
    replay = machine()
    other = Ledger(events=list(log), offset=ledger.offset, epoch=ledger.epoch, now_ms=ledger.now_ms)
    apply(replay, [other.read()])
    image, writer = replay.log.image, Ledger()
    if image.kraft_version is not None:
        writer.kraft(image.kraft_version)
    if image.committed is not None:
        writer.write(replace(writer.voters(), voters=image.committed.voters))
        del writer.events[-2]
    newest = {
        (type(event), event.id): event for event in log if isinstance(event, ControllerRegistered | BrokerRegistered)
    }
    for event in newest.values():
        if isinstance(event, ControllerRegistered):
            writer.write(event)
        elif event.id in image.brokers:
            writer.write(replace(event, fenced=image.brokers[event.id].fenced))
    for topic_id, topic in replay.log.partitions.topics.items():
        if topic.name is not None:
            writer.topic(topic.name)
        for number, held in topic.partitions.items():
            recovering = any((one.topic_id, one.partition) == (topic_id, number) for one in image.recovering)
            whole = writer.partition("orders", number, 1, recovering=recovering)
            writer.events[-1] = replace(whole, replicas=held.replicas, isr=held.isr, elr=held.elr, leader=held.leader)
    return writer.events


TAIL = st.lists(STEP.filter(lambda step: step not in ("begin", "end", "abort")), max_size=12)


@pytest.mark.kip("D122", "K048")
@given(TAIL, TAIL, st.integers(1, 4))
def test_a_snapshot_and_the_tail_give_what_the_whole_log_gives(
    before: list[str], after: list[str], pieces: int
) -> None:
    ledger = Ledger()
    ledger.leader(1)
    for step in before:
        write(ledger, step)
    log = list(ledger.events)
    snapshot = ledger.snapshot(image_of(ledger, log), pieces=pieces)
    contained_at = Millis(ledger.now_ms - 1_000 * len(snapshot))
    advanced = replace(ledger.advanced(ledger.offset), newest_timestamp_ms=contained_at)
    first = DecodedRow(1, snapshot[0].observed_at_ms, (*log, advanced))
    ledger.events = []
    ledger.epoch += 1
    ledger.leader(2)
    for step in after:
        write(ledger, step)
    tail = ledger.read()
    whole, compacted = machine(), machine()

    expected = apply(whole, [first, tail._replace(sequence=2)])
    assert told(apply(compacted, [*snapshot, tail])) == told(expected)
