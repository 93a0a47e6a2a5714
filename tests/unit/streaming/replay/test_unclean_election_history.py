"""Unclean elections are remembered by topic, as the log tells them and no snapshot does."""

import pytest

from connectors.log_event import LogEvent
from rules.model.history import UncleanElections
from rules.model.quorum import Quorum
from streaming.replay.recent_history import PARTITIONS, REMEMBERED, REMEMBERED_MS
from tests.unit.streaming.replay.ledger import Ledger, again, apply, ids, machine


def begun() -> Ledger:
    ledger = Ledger()
    ledger.leader(1)
    ledger.topic("orders")
    for number in range(3):
        ledger.partition("orders", number, 101, 102, 103)
    return ledger


def of(quorum: Quorum) -> UncleanElections:
    (one,) = quorum.history.unclean
    return one


@pytest.mark.kip("B002", "B005")
def test_a_leader_from_outside_those_in_sync_is_one_entry_a_topic() -> None:
    ledger, replay = begun(), machine()
    ledger.change("orders", 0, isr=(101,), elr=(103,), leader=101)
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    first = ledger.now_ms
    rows = [ledger.read()]
    ledger.change("orders", 2, isr=(103,), leader=103, recovering=True)
    one = of(apply(replay, [*rows, ledger.read()]))

    assert (one.topic, one.elections, one.partitions, one.leaders) == ("orders", 2, (0, 2), ids(102, 103))
    assert one.passed_over == ids(101, 102, 103), "in sync or eligible, and not elected"
    assert (one.first_timestamp_ms, one.last_timestamp_ms) == (first, first + 1_000)
    assert one.last_offset == ledger.offset - 1


@pytest.mark.kip("B048")
def test_another_one_while_it_recovers_counts_and_the_same_leader_that_comes_back_does_not() -> None:
    ledger, replay = begun(), machine()
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    ledger.change("orders", 0, leader=-1)
    ledger.change("orders", 0, leader=102)
    assert of(apply(replay, [ledger.read()])).elections == 1
    # Its record does not repeat the state (PartitionChangeBuilder).
    ledger.change("orders", 0, isr=(103,), leader=103)
    assert of(apply(again(replay.to_bytes()), [ledger.read()])).elections == 2


def test_a_clean_election_and_a_recovery_are_none() -> None:
    ledger, replay = begun(), machine()
    ledger.change("orders", 0, isr=(102, 103), leader=102)
    ledger.change("orders", 0, isr=(102, 103, 101), recovering=False)
    assert apply(replay, [ledger.read()]).history.unclean == ()


def test_a_snapshot_tells_of_none_and_takes_none_away() -> None:
    ledger, replay = begun(), machine()
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [ledger.read()])
    records: list[LogEvent] = [ledger.topic("pay"), ledger.partition("pay", 0, 101, 102, recovering=True)]
    ledger.events.clear()
    ledger.noops(9)
    quorum = apply(replay, ledger.snapshot(records))
    assert [one.topic for one in quorum.history.unclean] == ["orders"]
    assert [one.topic for one in quorum.recovering] == ["pay"]


def test_a_storm_does_not_fill_the_state() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    for number in range(REMEMBERED + 5):
        ledger.topic(f"t{number}")
    for number in range(REMEMBERED + 5):
        ledger.change(f"t{number}", 0, isr=(102,), leader=102, recovering=True)
    for partition in range(PARTITIONS + 5):
        ledger.change("t68", partition, isr=(102,), leader=102, recovering=True)
    quorum = apply(replay, [ledger.read()])
    assert len(quorum.history.unclean) == REMEMBERED
    newest = quorum.history.unclean[-1]
    assert (newest.topic, newest.elections, newest.partitions) == ("t68", PARTITIONS + 5, tuple(range(PARTITIONS)))

    ledger.now_ms += REMEMBERED_MS
    ledger.change("t68", 30, isr=(103,), leader=103, recovering=True)
    later = of(apply(replay, [ledger.read()]))
    assert (later.topic, later.elections, later.partitions, later.leaders) == ("t68", 1, (30,), ids(103))
    assert later.first_timestamp_ms == later.last_timestamp_ms
