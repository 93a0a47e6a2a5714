"""The log: voters, versions, registrations, transactions, and when rules see its image."""

from dataclasses import replace

import pytest

from connectors.observations.log_event import Undecodable
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.monitoring import Reason
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.image import REMOVALS_MAX
from streaming.replay.machine import BEHIND_MS, Machine
from tests.unit.rules.situation import present
from tests.unit.streaming.replay.log_script import (
    START,
    LogScript,
    again,
    apply,
    begun,
    failed,
    key,
    machine,
    poll,
    replica,
)

pytestmark = pytest.mark.kip(
    "A076", "A022", "A046", "D017", "D118", "D119", "D120", "D122", "E045", "E046", "E047", "E096", "K046"
)


@pytest.mark.kip("K003", "K010", "K033")
def test_a_change_of_several_voters_is_applied() -> None:
    script, replay = begun()
    script.voters("1-a", "2-b", "3-c")
    first = script.read()
    script.voters("1-a")

    quorum = apply(replay, [first, script.read()])

    assert present(quorum.committed).keys == {key("1-a")}
    assert [removal.key for removal in quorum.removals] == [key("2-b"), key("3-c")]
    script.voters("1-a", "4-d", "5-e")
    script.voters("1-a")
    quorum = apply(replay, [script.read()])
    assert {removal.key for removal in quorum.removals} == {*map(key, ("2-b", "3-c", "4-d", "5-e"))}, "never visible"


def test_removals_of_one_observation_have_the_times_of_their_own_records() -> None:
    script, replay = begun()
    script.voters("1-a", "2-b", "3-c")
    apply(replay, [script.read()])
    script.voters("1-a", "3-c")
    script.now_ms += 60_000
    script.voters("1-a")
    script.now_ms += 7_000
    script.noops(1)
    first, second = apply(replay, [script.read()]).removals
    assert (first.key, second.key) == (key("2-b"), key("3-c"))
    ages = [script.now_ms - one.removed_at_ms for one in (first, second)]
    assert ages == [67_000, 7_000], "by the log's clock"


def test_records_without_a_time_leave_the_time_of_the_log_as_it_was() -> None:
    script, replay = begun()
    before = apply(replay, [script.read()]).newest_timestamp_ms
    script.noops(1)
    quorum = apply(replay, [script.row(replace(script.advanced(script.offset), newest_timestamp_ms=None))])
    assert (quorum.last_offset, quorum.newest_timestamp_ms) == (1, before)


def test_of_many_removals_the_newest_are_kept() -> None:
    script, replay = begun()
    for number in range(REMOVALS_MAX + 3):
        script.voters("1-a", f"{10 + number}-x")
        apply(replay, [script.read()])
    kept = [removal.key.id for removal in replay.quorum().removals]
    assert kept == [*range(12, REMOVALS_MAX + 12)]


@pytest.mark.kip("K010")
def test_a_removal_is_dropped_when_its_id_is_a_voter_again() -> None:
    script, replay = begun()
    script.voters("1-a", "2-old", "3-c")
    rows = [script.read()]
    script.voters("1-a", "3-c")
    rows.append(script.read())
    removed_at = script.now_ms

    (removal,) = apply(replay, rows).removals
    assert (removal.key, removal.removed_at_ms) == (key("2-old"), removed_at)

    rows = [script.read(after_ms=60_000)]
    assert apply(replay, rows).removals == (removal,)

    script.voters("1-a", "2-new", "3-c")
    assert apply(replay, [script.read()]).removals == ()


@pytest.mark.kip("E045", "E046", "E096")
def test_a_transaction_is_applied_at_its_end_and_dropped_at_its_abort() -> None:
    script, replay = begun()
    script.begin()
    script.broker(101)
    script.broker_change(101, fenced=False)
    script.voters("1-a")
    script.kraft(1)
    script.leader(2, epoch=2)
    quorum = apply(replay, [script.read()])
    assert quorum.brokers == {}
    assert quorum.committed is not None, "control records are not part of transactions"
    assert (quorum.kraft_version, quorum.leader_id, quorum.leader_epoch) == (1, 2, 2)

    replay = again(replay.to_bytes())
    script.end()
    brokers = apply(replay, [script.read()]).brokers
    assert {node: one.fenced for node, one in brokers.items()} == {101: False}, "in the order of the log"

    script.begin()
    script.broker(102)
    script.end(aborted=True)
    script.end()
    assert set(apply(replay, [script.read()]).brokers) == {101}

    for broker in (103, 104):
        script.begin()
        script.broker(broker)
    script.end()
    assert set(apply(replay, [script.read()]).brokers) == {101, 104}, "a second begin drops the first transaction"


def test_a_row_of_a_relay_that_was_replaced_does_not_count_although_it_is_newer() -> None:
    script, replay = begun()
    first = replace_sequence(script.read(), 10_000, START)
    script.leader(2)
    apply(replay, [first])

    assert not applied(replay, replace_sequence(script.read(), 21, START + 30_000))
    assert applied(replay, replace_sequence(script.read(), 10_001, START + 1_000))
    assert replay.quorum().leader_epoch == script.epoch


def applied(to: Machine, row: DecodedRow) -> bool:
    return to.apply(row.events, sequence=row.sequence, observed_at_ms=row.observed_at_ms)


def replace_sequence(row: DecodedRow, sequence: int, observed_at_ms: int) -> DecodedRow:
    return row._replace(sequence=sequence, observed_at_ms=Millis(observed_at_ms))


def test_an_observation_without_a_sequence_is_refused() -> None:
    with pytest.raises(ValueError, match="sequence -1: record it first"):
        machine().apply([], sequence=-1, observed_at_ms=START)


def test_rules_see_no_history_before_the_log_is_read_to_its_high_watermark() -> None:
    script, replay = begun()
    script.topic("orders")
    script.partition("orders", 0, 101, 102)
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    behind = apply(replay, [script.read(behind=2)])
    assert replay.behind
    assert (behind.last_offset, behind.recovering) == (None, ())
    assert behind.high_watermark == 6, "polls are visible at once"

    script.change("orders", 0, isr=(101, 102), recovering=False)
    script.noops(1)
    replay = again(replay.to_bytes())
    assert apply(replay, [script.read()]).recovering == ()
    assert not replay.behind


@pytest.mark.parametrize(("behind_ms", "seen"), [(BEHIND_MS, None), (BEHIND_MS + 1, 1)])
def test_rules_see_a_log_that_stays_behind_as_far_as_it_is_read(behind_ms: int, seen: int | None) -> None:
    script, replay = begun()
    apply(replay, [script.read(behind=5)])
    script.broker(101)
    quorum = apply(replay, [script.read(behind=5, after_ms=behind_ms)])

    assert (quorum.last_offset, set(quorum.brokers)) == (seen, set() if seen is None else {101})


def test_rules_see_a_log_read_to_the_high_watermark_of_its_fetch_though_a_poll_reported_a_higher_one() -> None:
    script, replay = begun()
    quorum = apply(replay, [script.row(poll(replica("1-a"), hw=90)), script.read()])

    assert (quorum.high_watermark, quorum.last_offset) == (90, 0)
    assert not replay.behind


def test_loss_of_committed_metadata_restarts_the_log_and_accepts_lower_epochs() -> None:
    script, replay = LogScript(), machine()
    script.leader(1, epoch=9)
    script.voters("1-a", "2-b", "3-c")
    script.noops(50)
    rows = [script.read(), script.row(poll(replica("1-a"), epoch=9, hw=52))]
    rows.append(script.row(failed(Reason.METADATA_LOST)))
    quorum = apply(replay, rows)
    assert quorum.committed is not None, "rules see the old state until the new log is read"
    assert [failure.reason for failure in quorum.failures] == [Reason.METADATA_LOST]

    script.offset = 0
    script.leader(2, epoch=4)
    script.voters("2-b")
    rows = [script.read(behind=1)]
    assert len(apply(replay, rows).committed.voters) == 3  # type: ignore[union-attr]
    script.noops(1)
    quorum = apply(again(replay.to_bytes()), [script.read(), script.row(poll(leader=2, epoch=4))])
    assert present(quorum.committed).keys == {key("2-b")}
    assert (quorum.leader_id, quorum.leader_epoch, quorum.last_offset, quorum.high_watermark) == (2, 4, 2, None)
    assert [failure.reason for failure in quorum.failures] == [Reason.METADATA_LOST], "a success does not end it"


def test_an_undecodable_record_is_counted_once_and_replay_continues() -> None:
    script, replay = begun()
    bad = Undecodable(offset=Offset(script.offset), reason="what", length=3)
    script.noops(1)
    script.write(bad)
    row = script.read()
    apply(replay, [row, replace_sequence(row, 10, script.now_ms)])

    assert replay.undecodable == 1
    assert replay.quorum().last_offset == 1


def test_records_after_missing_ones_are_not_applied_until_the_log_is_read_again() -> None:
    script, replay = begun()
    script.voters("1-a", "2-b", "3-c")
    first = from_offset(script.read(), 0)
    script.broker(101)
    missing = script.read()
    script.voters("1-a", "2-b")
    later = from_offset(script.read(), 3)
    before = apply(replay, [first])

    after = apply(replay, [later, replace_sequence(later, later.sequence + 1, later.observed_at_ms + 60_000)])
    assert (after.committed, after.last_offset) == (before.committed, before.last_offset)
    assert after.log_seen_at_ms == before.log_seen_at_ms, "the log is not current"
    (violation,) = after.contract_violations
    assert (violation.contract, violation.rows, violation.grave) == ("no-offset-is-passed-over", 2, True)
    assert violation.example == "offsets 2 to 2 of the metadata log are missing"
    (failure,) = after.failures
    assert failure.reason is Reason.RECORDS_MISSING

    at_ms = later.observed_at_ms + 61_000
    read_again = (
        replace_sequence(row, number, at_ms) for number, row in enumerate((first, missing, later), later.sequence + 2)
    )
    whole = apply(replay, list(read_again))
    assert (set(whole.brokers), set(present(whole.committed).keys)) == ({NodeId(101)}, {key("1-a"), key("2-b")})
    assert (whole.failures, whole.log_seen_at_ms) == ((), at_ms)


def test_a_row_that_is_skipped_is_no_missing_one() -> None:
    script, replay = begun()
    apply(replay, [from_offset(script.read(), 0)])
    script.voters("1-a")
    skipped = from_offset(script.read(), 1)
    script.voters("2-b")

    replay.skip(sequence=skipped.sequence, observed_at_ms=START, reason="a bug")
    after = apply(replay, [from_offset(script.read(), 2)])
    assert present(after.committed).keys == {key("2-b")}


def from_offset(row: DecodedRow, offset: int) -> DecodedRow:
    """Returns a row of the log that was read from this offset on."""
    *records, end = row.events
    assert end.type == "log-advanced"
    return row._replace(events=(*records, replace(end, base_offset=Offset(offset))))
