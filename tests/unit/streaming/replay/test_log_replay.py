"""What the log says: voters, versions, registrations, transactions, and what of it is shown when."""

from dataclasses import replace

import pytest

from connectors.log_event import BrokerUnregistered, Undecodable
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.monitoring import Reason
from streaming.replay.cluster_monitor import DecodedRow
from tests.unit.streaming.replay.ledger import (
    START,
    Ledger,
    again,
    apply,
    endpoint,
    key,
    machine,
    poll,
    replica,
    unseen,
)


@pytest.mark.kip("E002")
def test_the_voters_record_is_the_whole_committed_set() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.kraft(1)
    ledger.voters("1-a", "2-b", "3-c")
    ledger.feature("metadata.version", 27)
    ledger.feature("transaction.version", 2)

    quorum = apply(replay, [ledger.read()])

    assert quorum.committed is not None
    assert quorum.committed.keys == {key("1-a"), key("2-b"), key("3-c")}
    assert (quorum.committed.offset, quorum.committed.leader_epoch, quorum.committed.timestamp_ms) == (2, 1, START)
    assert (quorum.kraft_version, quorum.metadata_version) == (1, 27)
    assert (quorum.leader_id, quorum.leader_epoch) == (1, 1)
    assert (quorum.last_offset, quorum.high_watermark, quorum.newest_timestamp_ms) == (4, 5, START)
    assert quorum.now_ms == quorum.log_seen_at_ms == START + 1_000


def test_a_whole_log_without_kraft_version_is_a_static_quorum() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)

    assert replay.quorum().kraft_version is None
    assert apply(replay, [ledger.read()]).kraft_version == 0


@pytest.mark.kip("K003", "K033")
def test_a_multi_voter_jump_is_taken_as_it_is() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-b", "3-c")
    first = ledger.read()
    ledger.voters("1-a")

    quorum = apply(replay, [first, ledger.read()])

    assert quorum.committed is not None
    assert quorum.committed.keys == {key("1-a")}
    assert [removal.key for removal in quorum.removals] == [key("2-b"), key("3-c")]


def test_a_removal_is_dropped_when_its_id_votes_again_with_whatever_directory() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-old", "3-c")
    rows = [ledger.read()]
    ledger.voters("1-a", "3-c")
    rows.append(ledger.read())
    removed_at = ledger.now_ms

    (removal,) = apply(replay, rows).removals
    assert (removal.key, removal.removed_at_ms) == (key("2-old"), removed_at)

    rows = [ledger.read(after_ms=60_000)]
    assert apply(replay, rows).removals == (removal,)

    ledger.voters("1-a", "2-new", "3-c")
    assert apply(replay, [ledger.read()]).removals == ()


def test_a_removal_in_a_stretch_of_old_log_is_as_old_as_the_log_says() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-b", "3-c")
    ledger.now_ms += 10_000
    ledger.voters("1-a", "3-c")
    ledger.now_ms += 7_000
    ledger.noops(1)

    (removal,) = apply(replay, [ledger.read()]).removals

    assert removal.removed_at_ms == ledger.now_ms - 7_000


def test_removals_one_after_the_other_in_one_observation_are_all_seen() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-b", "3-c", "4-d")
    ledger.voters("1-a", "2-b", "3-c")
    ledger.now_ms += 5_000
    ledger.voters("1-a", "2-b")
    ledger.voters("1-a", "2-b", "3-new")

    removals = apply(replay, [ledger.read()]).removals
    assert [(removal.key, ledger.now_ms - removal.removed_at_ms) for removal in removals] == [(key("4-d"), 5_000)]


@pytest.mark.kip("D131")
def test_registrations_of_controllers_and_brokers() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.controller(1)
    ledger.controller(1, port=9999)
    ledger.broker(101)
    apply(replay, [ledger.read()])
    unfenced_at = ledger.now_ms
    ledger.broker_change(101, fenced=False)
    ledger.broker_change(102, fenced=False)
    apply(replay, [ledger.read()])
    ledger.broker_change(101, shutdown=True)
    quorum = apply(replay, [ledger.read()])

    assert quorum.controllers[NodeId(1)].endpoints == (endpoint(1, 9999),)
    assert quorum.controllers[NodeId(1)].offset == 2
    broker = quorum.brokers[NodeId(101)]
    assert (broker.fenced, broker.in_controlled_shutdown, broker.alive_since_timestamp_ms) == (False, True, unfenced_at)
    assert NodeId(102) not in quorum.brokers, "a change of an unknown broker registers nobody"

    ledger.broker_change(101, fenced=True)
    assert apply(replay, [ledger.read()]).brokers[NodeId(101)].alive_since_timestamp_ms is None
    ledger.write(BrokerUnregistered(at=ledger.at(), id=NodeId(101)))
    assert apply(replay, [ledger.read()]).brokers == {}


@pytest.mark.kip("E045", "E046", "E096")
def test_a_transaction_counts_at_its_end_and_not_at_its_abort() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.begin()
    ledger.broker(101)
    ledger.voters("1-a")
    quorum = apply(replay, [ledger.read()])
    assert quorum.brokers == {}
    assert quorum.committed is not None, "control records stand outside transactions"

    replay = again(replay.to_bytes())
    ledger.end()
    assert set(apply(replay, [ledger.read()]).brokers) == {101}

    ledger.begin()
    ledger.broker(102)
    ledger.end(aborted=True)
    ledger.end()
    assert set(apply(replay, [ledger.read()]).brokers) == {101}


def test_a_second_begin_forgets_what_the_first_one_held() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.begin()
    ledger.broker(101)
    ledger.begin()
    ledger.broker(102)
    ledger.end()

    assert set(apply(replay, [ledger.read()]).brokers) == {102}


def test_an_observation_is_applied_once_and_a_re_read_record_is_skipped() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-b")
    first = ledger.read()
    ledger.voters("1-a")
    second = ledger.read()
    before = apply(replay, [first, second])

    assert not replay.apply(first.events, sequence=first.sequence, observed_at_ms=first.observed_at_ms)
    assert replay.quorum() is before

    after = apply(replay, [replace_sequence(first, 10, ledger.now_ms)])
    assert after.committed == before.committed
    assert after.last_offset == before.last_offset


def replace_sequence(row: DecodedRow, sequence: int, observed_at_ms: int) -> DecodedRow:
    return row._replace(sequence=sequence, observed_at_ms=Millis(observed_at_ms))


def test_an_observation_that_was_never_recorded_is_refused() -> None:
    with pytest.raises(ValueError, match="sequence -1: record it first"):
        machine().apply([], sequence=-1, observed_at_ms=START)


def test_history_is_not_shown_before_the_log_is_read_to_its_high_watermark() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.topic("orders")
    ledger.partition("orders", 0, 101, 102)
    ledger.change("orders", 0, isr=(102,), leader=102, recovering=True)
    behind = apply(replay, [ledger.read(behind=2)])
    assert replay.behind
    assert (behind.last_offset, behind.recovering) == (None, ())
    assert behind.high_watermark == 6, "looks are shown at once"

    ledger.change("orders", 0, isr=(101, 102), recovering=False)
    ledger.noops(1)
    replay = again(replay.to_bytes())
    assert apply(replay, [ledger.read()]).recovering == ()
    assert not replay.behind


def test_a_log_that_cannot_be_caught_up_with_is_shown_as_far_as_it_is_read() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    apply(replay, [ledger.read(behind=5)])
    ledger.broker(101)
    quorum = apply(replay, [ledger.read(behind=5, after_ms=11_000)])

    assert (quorum.last_offset, set(quorum.brokers)) == (1, {101})


def test_an_empty_fetch_is_a_sign_of_life_and_nothing_else() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    before = apply(replay, [ledger.read()])
    empty = ledger.advanced(None)
    after = apply(replay, [ledger.row(replace(empty, newest_timestamp_ms=None, last_offset=None))])

    assert after.log_seen_at_ms == ledger.now_ms
    assert (after.last_offset, after.newest_timestamp_ms) == (before.last_offset, before.newest_timestamp_ms)


def test_loss_of_committed_metadata_begins_the_log_anew_and_believes_lower_epochs() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1, epoch=9)
    ledger.voters("1-a", "2-b", "3-c")
    ledger.noops(50)
    rows = [ledger.read(), ledger.row(poll(replica("1-a"), epoch=9, hw=52))]
    rows.append(ledger.row(unseen(Reason.METADATA_LOST)))
    quorum = apply(replay, rows)
    assert quorum.committed is not None, "the old state is shown until the new log is read"
    assert [failure.reason for failure in quorum.failures] == [Reason.METADATA_LOST]

    ledger.offset = 0
    ledger.leader(2, epoch=4)
    ledger.voters("2-b")
    rows = [ledger.read(behind=1)]
    assert len(apply(replay, rows).committed.voters) == 3  # type: ignore[union-attr]
    ledger.noops(1)
    quorum = apply(again(replay.to_bytes()), [ledger.read(), ledger.row(poll(leader=2, epoch=4))])
    assert quorum.committed is not None
    assert quorum.committed.keys == {key("2-b")}
    assert (quorum.leader_id, quorum.leader_epoch, quorum.last_offset, quorum.high_watermark) == (2, 4, 2, None)
    assert [failure.reason for failure in quorum.failures] == [Reason.METADATA_LOST], "success does not mend it"


@pytest.mark.kip("D017")
def test_a_newer_epoch_below_what_was_applied_is_a_rewritten_log() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    ledger.voters("1-a", "2-b", "3-c")
    ledger.noops(50)
    apply(replay, [ledger.read()])
    ledger.offset = 30
    ledger.leader(2, epoch=2)
    ledger.voters("2-b")
    quorum = apply(replay, [ledger.read()])

    assert quorum.committed is not None
    assert (quorum.committed.offset, quorum.last_offset) == (31, 31)
    (failure,) = quorum.failures
    assert failure.reason is Reason.METADATA_LOST
    assert failure.detail == "offset 30 was rewritten in epoch 2: committed records up to offset 51 are lost"


def test_undecodable_is_counted_once_and_the_stream_goes_on() -> None:
    ledger, replay = Ledger(), machine()
    ledger.leader(1)
    bad = Undecodable(offset=Offset(ledger.offset), reason="what", length=3)
    ledger.noops(1)
    ledger.write(bad)
    row = ledger.read()
    apply(replay, [row, replace_sequence(row, 10, ledger.now_ms)])

    assert replay.undecodable == 1
    assert replay.quorum().last_offset == 1
