"""Observations of the log that are missing, skipped or of another relay; see `test_log_scenarios` for all others."""

from dataclasses import replace

import pytest

from connectors.observations.log_event import LogAdvanced
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.monitoring import Reason
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.image import REMOVALS_MAX, Image, keep_alive_since
from streaming.replay.machine import Machine
from tests.present import present
from tests.recordings import TWO_CLUSTERS
from tests.scripts.log_script import (
    START,
    apply,
    begun,
    key,
    machine,
)
from tests.situation.commands import situation


def test_a_log_without_its_start_may_be_of_a_dynamic_quorum() -> None:
    assert (Image(complete=True).kraft, Image(complete=False).kraft) == (0, None)


def test_of_many_removals_the_newest_are_kept() -> None:
    script, replay = begun()
    for number in range(REMOVALS_MAX + 3):
        script.voters("1-a", f"{10 + number}-x")
        apply(replay, [script.read()])
    kept = [removal.key.id for removal in replay.quorum().removals]
    assert kept == [*range(12, REMOVALS_MAX + 12)]


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
    assert after.log_fetched_at_ms == before.log_fetched_at_ms, "the log is not current"
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
    assert (whole.failures, whole.log_fetched_at_ms) == ((), at_ms)


@pytest.mark.parametrize("cluster", TWO_CLUSTERS.cluster_ids)
def test_a_forgotten_log_that_is_read_again_is_known_as_one_that_is_read_for_the_first_time(cluster: str) -> None:
    """One log begins with a snapshot, the other with its first record: no record of either was rewritten."""
    known, forgotten = TWO_CLUSTERS.monitor(cluster), TWO_CLUSTERS.monitor(cluster)
    forgotten.machine.forget_log()
    rows = [*TWO_CLUSTERS.rows(cluster)]

    alerts, again = ([monitor.apply([row]).alerts for row in rows] for monitor in (known, forgotten))

    assert again == alerts
    assert forgotten.machine.quorum() == known.machine.quorum()


def test_a_snapshot_keeps_since_when_a_broker_is_alive_only_if_it_was_alive() -> None:
    (one,) = situation("brokers 101").brokers.values()
    known = replace(one, alive_since_timestamp_ms=Millis(1_000))
    read = {NodeId(101): replace(one, alive_since_timestamp_ms=Millis(90_000))}
    others = (replace(known, fenced=True, alive_since_timestamp_ms=None), replace(known, incarnation_id="another"))

    assert keep_alive_since(read, {NodeId(101): known}) == {NodeId(101): known}
    assert [keep_alive_since(read, {NodeId(101): other}) for other in others] == [read, read]


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
    assert isinstance(end, LogAdvanced)
    return row._replace(events=(*records, replace(end, base_offset=Offset(offset))))
