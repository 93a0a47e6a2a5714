"""Properties of every history: redelivery, storing, batching, and a snapshot instead of the log."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from connectors.observations.log_event import (
    BrokerUnregistered,
    ControllerUnregistered,
    ElrCleared,
    TopicRemoved,
)
from rules.model.identifiers import Millis, NodeId, TopicId
from rules.model.monitoring import ObservationSource, Reason
from rules.model.quorum import Quorum
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.record_image import RecordImage
from tests.scripts.log_script import LogScript, again, apply, failed, machine, poll, replica
from tests.unit.streaming.replay.stored_state import stored_values

STEP = st.sampled_from(
    [
        "leader", "kraft", "voters-3", "voters-2", "controller", "broker", "fence", "unfence", "unregister",
        "unregister-controller", "topic", "partition", "shrink", "unclean", "recovered", "remove", "clear-elr",
        "begin", "end", "abort", "noop", "feature", "no-feature", "upgrade",
    ]
)  # fmt: skip
OBSERVATION = st.sampled_from(["poll", "no-leader", "refused", "denied", "silence"])
HISTORY = st.lists(
    st.tuples(st.lists(STEP, max_size=5), st.integers(0, 2), st.lists(OBSERVATION, max_size=2)), max_size=12
)


def write(script: LogScript, step: str) -> None:
    orders = TopicId("id-of-orders")
    steps: dict[str, Callable[[], object]] = {
        "leader": lambda: script.leader(1 + script.epoch % 3, script.epoch + 1),
        "kraft": lambda: script.kraft(1),
        "voters-3": lambda: script.voters("1-a", "2-b", "3-c"),
        "voters-2": lambda: script.voters("1-a", "2-z"),
        "controller": lambda: script.controller(2),
        "broker": lambda: script.broker(101),
        "fence": lambda: script.broker_change(101, fenced=True),
        "unfence": lambda: script.broker_change(101, fenced=False),
        "unregister": lambda: script.write(BrokerUnregistered(at=script.at(), id=NodeId(101))),
        "unregister-controller": lambda: script.write(ControllerUnregistered(at=script.at(), id=NodeId(2))),
        "topic": lambda: script.topic("orders"),
        "partition": lambda: script.partition("orders", 0, 101, 102, elr=(103,)),
        "shrink": lambda: script.change("orders", 0, isr=(101,), elr=(102,)),
        "unclean": lambda: script.change("orders", 0, isr=(102,), elr=(), leader=102, recovering=True),
        "recovered": lambda: script.change("orders", 0, recovering=False),
        "remove": lambda: script.write(TopicRemoved(at=script.at(), topic_id=orders)),
        "clear-elr": lambda: script.write(ElrCleared(at=script.at(), topic=None)),
        "begin": script.begin,
        "end": script.end,
        "abort": lambda: script.end(aborted=True),
        "noop": lambda: script.noops(1),
        "feature": lambda: script.feature("group.version", 1),
        "no-feature": lambda: script.feature("group.version", 0),
        "upgrade": lambda: script.feature("metadata.version", 29),
    }
    steps[step]()


def observation(script: LogScript, kind: str) -> DecodedRow:
    if kind == "poll":
        return script.row(poll(replica("1-a"), replica("2-b", end=script.offset), epoch=script.epoch, hw=script.offset))
    if kind == "silence":
        return script.row(after_ms=20_000)
    reason = {"no-leader": Reason.NO_LEADER, "refused": Reason.REFUSED, "denied": Reason.DENIED}[kind]
    return script.row(failed(reason, f"c{1 + script.sequence % 3}:9093", ObservationSource.QUORUM))


def rows_of(history: list[tuple[list[str], int, list[str]]]) -> list[DecodedRow]:
    script = LogScript()
    script.leader(1)
    rows = []
    for steps, behind, kinds in history:
        for step in steps:
            write(script, step)
        rows.append(script.read(behind=behind))
        rows += [observation(script, kind) for kind in kinds]
    return rows


@given(HISTORY, st.data())
def test_a_prefix_delivered_twice_is_applied_once(
    history: list[tuple[list[str], int, list[str]]], data: st.DataObject
) -> None:
    rows = rows_of(history)
    again_from = data.draw(st.integers(0, len(rows)))
    again_until = data.draw(st.integers(again_from, len(rows)))
    once, twice = machine(), machine()

    expected = apply(once, rows)
    assert apply(twice, [*rows[:again_until], *rows[again_from:]]) == expected
    assert stored_values(twice) == stored_values(once)


def applied(to: Machine, row: DecodedRow) -> bool:
    """Returns whether the machine applied this observation; False if it had applied it before."""
    return to.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)


@given(HISTORY, st.data())
def test_storing_and_restoring_in_the_middle_changes_nothing(
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
    assert stored_values(interrupted) == stored_values(whole)


@given(HISTORY, st.data())
def test_a_range_that_is_fetched_again_changes_only_the_time_of_the_last_fetch(
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

    assert after == replace(before, log_fetched_at_ms=after.log_fetched_at_ms)


def log_facts(quorum: Quorum) -> object:
    """Returns the facts from the log without their start times, which a snapshot does not hold."""
    return (
        quorum.committed.voters if quorum.committed else None,
        quorum.kraft_version,
        quorum.metadata_version,
        quorum.features,
        {node: (one.incarnation_id, one.endpoints) for node, one in quorum.controllers.items()},
        {node: (one.incarnation_id, one.fenced, one.in_controlled_shutdown) for node, one in quorum.brokers.items()},
        {(one.topic_id, one.partition): (one.topic, one.replicas, one.isr, one.leader) for one in quorum.recovering},
        (quorum.last_offset, quorum.newest_timestamp_ms),
    )


def written(script: LogScript, steps: list[str]) -> RecordImage:
    """Writes the steps that change what exists, as Kafka does; returns what they leave."""
    image, known = RecordImage(), []
    for step in steps:
        write(script, step)
    for event in script.events:
        with suppress(KeyError):
            image.apply(event)
            known.append(event)
    script.events = known
    return image


TAIL = st.lists(STEP.filter(lambda step: step not in ("begin", "end", "abort")), max_size=12)


@given(TAIL, TAIL, st.integers(1, 4))
def test_a_snapshot_and_the_records_after_it_equal_the_whole_log(
    before: list[str], after: list[str], chunks: int
) -> None:
    script = LogScript()
    script.leader(1)
    image = written(script, before)
    log, snapshot = list(script.events), script.snapshot(image.records(), chunks=chunks)
    contained_at = Millis(script.now_ms - 1_000 * len(snapshot))
    advanced = replace(script.advanced(script.offset), newest_timestamp_ms=contained_at)
    first = DecodedRow(1, snapshot[0].observed_at_ms, (*log, advanced))
    script.events = []
    script.epoch += 1
    script.leader(2)
    for step in after:
        write(script, step)
    tail = script.read()
    whole, compacted = machine(), machine()

    expected = apply(whole, [first, tail._replace(sequence=2)])
    assert log_facts(apply(compacted, [*snapshot, tail])) == log_facts(expected)
