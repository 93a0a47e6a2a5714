"""KIP-595: thresholds that are longer than Kafka's timers, a condition that lasts, and epochs."""

import pytest

from connectors.gather.commit_buffer import LOSS_CONFIRM_MS
from connectors.metadata.batches import BadBatch, RecordBatch, scan
from connectors.metadata.decoder import decode_records
from connectors.observations.log_event import EpochDrop, LogAdvanced
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.model.ages import Ages
from rules.model.identifiers import Epoch, Offset
from streaming.replay.cluster_monitor import ClusterMonitor
from tests.kips.kafka_timers import (
    BACKOFF_MAX_MS,
    CHECK_QUORUM_MS,
    ELECTION_TIMEOUT_MS,
    FETCH_TIMEOUT_MS,
    NOOP_INTERVAL_MS,
    OBSERVER_FORGOTTEN_MS,
    REQUEST_TIMEOUT_MS,
    UPDATE_VOTER_MS,
)
from tests.kips.kip_records import voters_record
from tests.scripts.log_script import SETTINGS, LogScript, poll, replica
from tests.unit.connectors.metadata.metadata_bytes import batch, noop

DEFAULTS = thresholds_for({})
AGES = Ages()


def test_thresholds_are_multiples_of_kafkas_timers() -> None:
    assert AGES.fetch_ms == 5 * FETCH_TIMEOUT_MS
    election_ms = FETCH_TIMEOUT_MS + ELECTION_TIMEOUT_MS + BACKOFF_MAX_MS
    assert election_ms < DEFAULTS["no-leader"].ms("hold") <= 2 * election_ms


def test_holds_are_longer_than_kafkas_own_timers() -> None:
    assert DEFAULTS["stale-voter-endpoint"].ms("hold") > 2 * UPDATE_VOTER_MS, "a voter that moved sends UpdateRaftVoter"
    assert DEFAULTS["observer-could-be-voter"].ms("removed_for") >= OBSERVER_FORGOTTEN_MS
    assert DEFAULTS["no-leader"].ms("hold") > CHECK_QUORUM_MS
    assert LOSS_CONFIRM_MS > CHECK_QUORUM_MS, "a leader without a majority answers until then"
    assert AGES.answer_ms > 2 * REQUEST_TIMEOUT_MS
    assert DEFAULTS["no-leader"].ms("still") >= 10 * NOOP_INTERVAL_MS
    assert AGES.fetch_ms > 2 * REQUEST_TIMEOUT_MS, "a request is given up and repeated"


@pytest.mark.parametrize(("pending_s", "fires"), [(45, []), (75, ["firing"])])
def test_a_pending_voter_change_fires_only_after_its_hold(pending_s: int, fires: list[str]) -> None:
    script, watch = LogScript(), ClusterMonitor(SETTINGS)
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    alerts: list[Alert] = []
    for second in range(10 + pending_s + 5):
        added = (replica("4-d"),) if second >= 10 else ()
        if second == 10 + pending_s:
            script.voters("1-a", "2-b", "3-c", "4-d")
        script.noops(2)
        rows = [script.read(after_ms=500), script.row(poll(*map(replica, ("1-a", "2-b", "3-c")), *added), after_ms=500)]
        alerts += watch.apply(rows).alerts

    assert [one.state.value for one in alerts if one.rule == "voter-change-stuck"] == fires


@pytest.mark.parametrize(("epoch", "read"), [(0, True), (1, True), (-1, False), (-7, False)])
def test_epochs_start_at_0_and_are_never_negative(epoch: int, read: bool) -> None:
    for records in ([noop()], [voters_record(1)]):
        (one,) = scan(batch(records, epoch=epoch))
        assert isinstance(one, RecordBatch) is read
        assert read or (isinstance(one, BadBatch) and one.reason == f"invalid leader epoch {epoch}")

    *_, end = decode_records(b"", base_offset=0, last_offset=-1, leader_epoch=epoch, high_watermark=0).events()
    assert isinstance(end, LogAdvanced)
    assert end.leader_epoch == (epoch if read else None)


@pytest.mark.parametrize("lower", [4, 5, 6])
def test_an_epoch_that_decreases_within_one_observation_is_found(lower: int) -> None:
    log = batch([noop()], epoch=5) + batch([noop()], base_offset=1, epoch=lower)

    *_, end = decode_records(log, base_offset=0, last_offset=1, leader_epoch=6, high_watermark=2).events()

    assert isinstance(end, LogAdvanced)
    assert (end.first_epoch, end.last_epoch) == (5, lower)
    drop = EpochDrop(offset=Offset(1), epoch=Epoch(4), before=Epoch(5))
    assert end.epoch_drop == (drop if lower == 4 else None)
