"""A snapshot takes the place of the log's state at its footer, be that many observations later."""

import pytest

from connectors.log_event import SnapshotEnded
from rules.model.identifiers import NodeId
from rules.model.monitoring import ObservationSource, Reason
from streaming.replay.cluster_monitor import DecodedRow
from streaming.replay.machine import Machine
from tests.unit.streaming.replay.ledger import Ledger, again, apply, key, machine, poll, replica, unseen


def started() -> tuple[Ledger, Machine]:
    """A quorum of three at offset 102 with broker 101, seen at work."""
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-b", "3-c")
    ledger.broker(101, fenced=False)
    ledger.noops(99)
    apply(replay, [ledger.read(), ledger.row(poll(replica("1-a"), hw=102))])
    return ledger, replay


def written() -> list[object]:
    """A later state: voters 1 and 2, broker 102, a partition recovering."""
    other = Ledger()
    other.kraft(1)
    other.voters("1-a", "2-b")
    other.broker(102, fenced=False)
    other.topic("orders")
    other.partition("orders", 0, 101, 102, recovering=True)
    return list(other.events)


def snapshot(ledger: Ledger, pieces: int, end_offset: int | None = None) -> list[DecodedRow]:
    return ledger.snapshot(written(), pieces=pieces, end_offset=end_offset)  # type: ignore[arg-type]


@pytest.mark.kip("A043", "A057")
def test_state_is_replaced_at_the_footer_and_only_there() -> None:
    ledger, replay = started()
    ledger.noops(400)
    *pieces, last = snapshot(ledger, 3)
    before = apply(replay, [])
    for number, piece in enumerate(pieces):
        replay = again(replay.to_bytes())
        look = ledger.row(unseen(Reason.TIMED_OUT, sight=ObservationSource.QUORUM))
        # The looks come between the pieces.
        quorum = apply(replay, [piece._replace(sequence=100 + 2 * number), look._replace(sequence=101 + 2 * number)])
        assert quorum.committed == before.committed
        assert replay.behind
    last = last._replace(sequence=200)
    quorum = apply(replay, [last])

    assert quorum.committed is not None
    assert quorum.committed.keys == {key("1-a"), key("2-b")}
    assert set(quorum.brokers) == {102}, "what the snapshot does not hold does not exist"
    assert (quorum.last_offset, replay.log.position) == (501, 501)
    assert [removal.key for removal in quorum.removals] == [key("3-c")]


@pytest.mark.kip("B031")
def test_what_a_snapshot_tells_stands_at_its_last_contained_offset_and_time() -> None:
    ledger, replay = started()
    ledger.noops(400)
    contained_at = ledger.now_ms
    quorum = apply(replay, snapshot(ledger, 1))

    (recovery,) = quorum.recovering
    assert (recovery.since_offset, recovery.since_timestamp_ms, recovery.at_least) == (501, contained_at, True)
    assert (recovery.previous_isr, recovery.previous_elr) == (None, None)
    assert recovery.topic == "orders"
    assert quorum.committed is not None
    assert (quorum.committed.offset, quorum.committed.timestamp_ms) == (501, contained_at)
    assert quorum.brokers[NodeId(102)].alive_since_timestamp_ms == contained_at
    assert quorum.newest_timestamp_ms == contained_at


def test_polls_probes_and_failures_are_not_touched() -> None:
    ledger, replay = started()
    failing = apply(replay, [ledger.row(unseen(Reason.REFUSED, "c3:9093", ObservationSource.QUORUM))])
    ledger.noops(400)
    quorum = apply(replay, snapshot(ledger, 1))

    assert quorum.failures == failing.failures
    assert (quorum.poll, quorum.histories) == (failing.poll, failing.histories)


@pytest.mark.kip("D121", "E097")
def test_the_log_goes_on_behind_the_snapshot() -> None:
    ledger, replay = started()
    ledger.noops(400)
    apply(replay, snapshot(ledger, 2))
    ledger.change("orders", 0, isr=(101, 102), recovering=False)
    ledger.voters("1-a", "2-b", "4-d")
    quorum = apply(replay, [ledger.read()])

    assert quorum.recovering == ()
    assert quorum.committed is not None
    assert quorum.committed.keys == {key("1-a"), key("2-b"), key("4-d")}
    assert quorum.committed.offset == 503


def test_a_new_header_discards_the_unfinished_snapshot() -> None:
    ledger, replay = started()
    ledger.noops(400)
    begun, *_ = snapshot(ledger, 3)
    other = Ledger()
    other.voters("1-a", "9-z")
    quorum = apply(replay, [begun, *ledger.snapshot(other.events)])

    assert quorum.committed is not None
    assert quorum.committed.keys == {key("1-a"), key("9-z")}
    assert quorum.recovering == ()


def test_a_piece_that_comes_twice_counts_once() -> None:
    ledger, replay = started()
    ledger.noops(400)
    first, second, third = snapshot(ledger, 3)
    rows = [first, second, second, third]

    quorum = apply(replay, [row._replace(sequence=100 + number) for number, row in enumerate(rows)])
    assert quorum.last_offset == 501
    assert len(quorum.recovering) == 1


def test_a_snapshot_of_what_is_applied_is_a_re_read() -> None:
    ledger, replay = started()
    before = apply(replay, [])
    quorum = apply(replay, snapshot(ledger, 2, end_offset=80))

    assert (quorum.committed, quorum.brokers, quorum.last_offset) == (before.committed, before.brokers, 101)


def test_a_snapshot_of_a_newer_epoch_below_what_is_applied_is_a_rewritten_log() -> None:
    ledger, replay = started()
    ledger.epoch = 5
    quorum = apply(replay, snapshot(ledger, 1, end_offset=80))

    assert quorum.last_offset == 79
    assert [failure.reason for failure in quorum.failures] == [Reason.METADATA_LOST]


def test_a_footer_of_another_snapshot_ends_nothing() -> None:
    ledger, replay = started()
    ledger.noops(400)
    (row,) = snapshot(ledger, 1)
    *events, footer = row.events
    assert isinstance(footer, SnapshotEnded)
    wrong = SnapshotEnded(at=footer.at, end_offset=footer.end_offset, epoch=type(footer.epoch)(77))
    quorum = apply(replay, [DecodedRow(row.sequence, row.observed_at_ms, (*events, wrong))])

    assert quorum.last_offset == 101
    assert not replay.behind


def test_reading_on_without_a_footer_gives_the_snapshot_up() -> None:
    ledger, replay = started()
    ledger.noops(400)
    begun, *_ = snapshot(ledger, 3)
    ledger.broker(103)
    quorum = apply(replay, [begun, ledger.read()])

    assert not replay.behind
    assert set(quorum.brokers) == {101, 103}


def test_a_transaction_open_in_the_log_ends_with_the_snapshot_that_replaces_it() -> None:
    ledger, replay = started()
    ledger.begin()
    ledger.broker(109)
    apply(replay, [ledger.read()])
    ledger.noops(400)
    apply(replay, snapshot(ledger, 1))
    ledger.end()

    assert set(apply(replay, [ledger.read()]).brokers) == {102}


def test_the_first_snapshot_is_shown_once_the_log_behind_it_is_read() -> None:
    ledger, replay = Ledger(), machine()
    ledger.noops(500)
    ledger.epoch = 3
    quorum = apply(replay, [ledger.row(poll(replica("1-a"), epoch=3, hw=502)), *snapshot(ledger, 1)])
    assert quorum.committed is None
    ledger.change("orders", 0, recovering=False)
    ledger.noops(1)
    quorum = apply(replay, [ledger.read()])

    assert quorum.committed is not None
    assert (quorum.recovering, quorum.removals, quorum.kraft_version) == ((), (), 1)


def test_the_bootstrap_snapshot_ends_at_offset_0() -> None:
    ledger, replay = Ledger(epoch=0), machine()
    quorum = apply(replay, snapshot(ledger, 1))
    assert quorum.committed is not None

    ledger.leader(1, epoch=1)
    assert apply(replay, [ledger.read()]).last_offset == 0
