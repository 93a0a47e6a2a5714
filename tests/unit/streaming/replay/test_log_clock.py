"""LogClock: a leader whose clock is wrong makes nothing older or younger."""

import pytest

from connectors.metadata.value_limits import LATEST_TIMESTAMP_MS, NO_TIMESTAMP
from connectors.observations.partition_run import PartitionRun, PartitionValues
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, TopicId
from rules.model.monitoring import LeaderLog, Reason, Snapshot
from rules.model.quorum import Quorum
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.present import present
from tests.scripts.log_script import LogScript, again, apply, failed, machine, view

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = Millis(1_790_000_000_000)


def recovering(script: LogScript) -> None:
    """Partition orders-0 becomes RECOVERING."""
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, recovering=True)


def age_ms(quorum: Quorum) -> int:
    """How long orders-0 has been RECOVERING."""
    assert quorum.newest_timestamp_ms is not None
    return quorum.newest_timestamp_ms - quorum.recovering[0].since_timestamp_ms


def read(replay: Machine, script: LogScript, *, after_ms: int = 1_000, behind: int = 0) -> Quorum:
    script.noops(1)
    return apply(replay, [script.read(after_ms=after_ms, behind=behind)])


def follow(replay: Machine, script: LogScript, *, for_ms: int = 10_000) -> Quorum:
    """Reads the log to its end every second, for this long."""
    for _ in range(for_ms // 1_000):
        read(replay, script)
    return replay.quorum()


@pytest.mark.parametrize("host_ahead_ms", [0, HOUR_MS, -HOUR_MS])
@pytest.mark.parametrize("ahead_ms", [3 * HOUR_MS, -2 * HOUR_MS, 150_000, -150_000])
def test_a_clock_that_is_set_changes_no_age(ahead_ms: int, host_ahead_ms: int) -> None:
    """Whether or not the clock of the gatherer's host is right."""
    script, replay = LogScript(now_ms=NOW_MS, clock_ahead_ms=-host_ahead_ms), machine()
    recovering(script)
    began_ms = script.now_ms
    follow(replay, script)
    script.clock_ahead_ms = ahead_ms - host_ahead_ms
    assert age_ms(follow(replay, script, for_ms=30_000)) == pytest.approx(script.now_ms - began_ms, abs=2_000)
    # The job starts again; what is written now has its age from now.
    replay = again(replay.to_bytes())
    script.partition("orders", 1, 101, 102, recovering=True)
    first, second = read(replay, script).recovering
    assert second.since_timestamp_ms - first.since_timestamp_ms == pytest.approx(40_000, abs=2_000)
    # The clock is set right.
    script.clock_ahead_ms = -host_ahead_ms
    assert age_ms(follow(replay, script)) == pytest.approx(script.now_ms - began_ms, abs=2_000)
    assert replay.log_clock.ahead_ms == pytest.approx(max(0, -host_ahead_ms), abs=2_000)


def test_clocks_that_differ_by_a_minute_are_left_as_they_are() -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    for ahead_ms in (60_000, 1_000, -58_000):
        script.clock_ahead_ms = ahead_ms
        assert read(replay, script).newest_timestamp_ms == script.now_ms - 1_000 + ahead_ms


def test_a_first_observation_of_a_clock_that_is_ahead_is_put_at_its_own_time() -> None:
    script, replay = LogScript(now_ms=NOW_MS, clock_ahead_ms=3 * HOUR_MS), machine()
    recovering(script)
    quorum = read(replay, script)
    assert age_ms(quorum) == 0
    assert quorum.newest_timestamp_ms == quorum.now_ms


def test_a_log_that_is_read_a_day_late_keeps_its_timestamps() -> None:
    """Nothing shows which clock was right, and no record is from the future."""
    script, replay = LogScript(now_ms=NOW_MS), machine()
    recovering(script)
    for ahead_ms in (3 * HOUR_MS, 0):
        script.now_ms -= DAY_MS - 10_000
        script.clock_ahead_ms = ahead_ms
        written_ms = script.log_ms
        read(replay, script, after_ms=DAY_MS, behind=99)
        assert replay.log.image.newest_timestamp_ms == written_ms


def test_a_log_that_is_read_an_hour_late_keeps_its_known_correction() -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    follow(replay, script)
    script.clock_ahead_ms = 3 * HOUR_MS
    follow(replay, script)
    written_ms = script.now_ms
    assert read(replay, script, after_ms=HOUR_MS).newest_timestamp_ms == written_ms


def test_records_that_are_read_again_are_no_step_back() -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    script.noops(1)
    old = script.read()
    apply(replay, [old])
    script.now_ms += HOUR_MS
    read(replay, script)
    script.sequence += 1
    again_read = DecodedRow(script.sequence, Millis(script.now_ms + 1_000), old.events)
    apply(replay, [again_read])
    assert replay.log_clock.ahead_ms == 0


def test_a_log_that_was_lost_begins_again() -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    read(replay, script)
    apply(replay, [script.row(failed(Reason.METADATA_LOST))])
    restored = LogScript(now_ms=script.now_ms - DAY_MS, sequence=script.sequence, epoch=2)
    restored.noops(1)
    restored_ms = restored.now_ms
    assert apply(replay, [restored.read(after_ms=DAY_MS)]).newest_timestamp_ms == restored_ms


@pytest.mark.parametrize("written_ms", [0, LATEST_TIMESTAMP_MS])
def test_a_corrected_time_is_one_that_the_decoder_accepts(written_ms: int) -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    follow(replay, script)
    script.clock_ahead_ms = written_ms - script.now_ms
    read(replay, script)
    script.clock_ahead_ms = 0
    times = [age.newest_timestamp_ms for age in (follow(replay, script), apply(replay, script.snapshot([])))]
    assert all(time_ms is not None and 0 <= time_ms <= LATEST_TIMESTAMP_MS for time_ms in times)


def test_no_timestamp_is_no_time_of_a_wrong_clock() -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    follow(replay, script)
    script.clock_ahead_ms = NO_TIMESTAMP - script.now_ms
    read(replay, script)
    script.clock_ahead_ms = 0
    follow(replay, script)
    assert replay.log_clock.ahead_ms == 0
    assert replay.quorum().newest_timestamp_ms == script.now_ms - 1_000


def test_a_correction_shrinks_slowly_after_the_gatherers_clock_was_set() -> None:
    """The gatherer's clock was an hour behind. Set forward, it makes nothing an hour older."""
    script, replay = LogScript(now_ms=NOW_MS, clock_ahead_ms=HOUR_MS), machine()
    recovering(script)
    read(replay, script)
    script.now_ms, script.clock_ahead_ms = script.now_ms + HOUR_MS, 0
    passed_ms = 0
    while replay.log_clock.ahead_ms:
        quorum = read(replay, script, after_ms=10_000)
        passed_ms += 10_000
        assert age_ms(quorum) <= 1.1 * passed_ms + 2_000
        assert passed_ms <= 11 * HOUR_MS
    assert passed_ms >= 9 * HOUR_MS


def test_a_run_of_partitions_is_corrected_as_each_record_is() -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    follow(replay, script)
    script.clock_ahead_ms = 3 * HOUR_MS
    values = PartitionValues(
        replicas=(NodeId(101),), isr=(NodeId(101),), elr=(), last_known_elr=(), leader=NodeId(101), leader_set=True,
        recovering=True, adding=(), removing=(),
    )  # fmt: skip
    run = PartitionRun(
        base_offset=script.offset,
        leader_epoch=Epoch(1),
        timestamp_ms=script.log_ms,
        snapshot=False,
        rows=[(0, TopicId("id-of-orders"), 0, values, 0, 0, None)],
    )
    script.noops(1)
    row = script.read()
    quorum = apply(replay, [DecodedRow(row.sequence, row.observed_at_ms, (run, *row.events))])
    assert abs(quorum.recovering[0].since_timestamp_ms - quorum.now_ms) <= 2_000


def test_a_snapshot_is_not_from_the_future() -> None:
    script, replay = LogScript(now_ms=NOW_MS, clock_ahead_ms=3 * HOUR_MS), machine()
    script.offset = 10
    source = LogScript(now_ms=NOW_MS)
    recovering(source)
    quorum = apply(replay, script.snapshot(source.events))
    assert quorum.recovering[0].since_timestamp_ms <= quorum.now_ms + 60_000


@pytest.mark.parametrize(
    ("end_offset", "ahead_ms", "written_ago_ms"),
    [
        # Written before the clock was set, and after it.
        (3, 3 * HOUR_MS, 25_000),
        (18, 3 * HOUR_MS, 5_000 - 3 * HOUR_MS),
        (18, -2 * HOUR_MS, 5_000 + 2 * HOUR_MS),
        # Not read before: which clock wrote it is not known.
        (90, 3 * HOUR_MS, 0),
        (90, -2 * HOUR_MS, 0),
        (90, -2 * HOUR_MS, 2 * HOUR_MS),
    ],
)
def test_a_snapshot_has_the_age_of_its_newest_record(end_offset: int, ahead_ms: int, written_ago_ms: int) -> None:
    script, replay = LogScript(now_ms=NOW_MS), machine()
    follow(replay, script)
    script.clock_ahead_ms = ahead_ms
    follow(replay, script)
    contained = Millis(script.now_ms - written_ago_ms)
    log = LeaderLog(
        start_offset=Offset(0),
        snapshot=Snapshot(end_offset=Offset(end_offset), epoch=Epoch(1), last_contained_timestamp_ms=contained),
        tells_absence=True,
        begins_timestamp_ms=None,
    )
    (seen,) = apply(replay, [script.row(view(1, log=log))]).leader_views.values()
    ago_ms = seen.observed_at_ms - present(present(present(seen.log).snapshot).last_contained_timestamp_ms)
    assert -60_000 <= ago_ms <= 26_000
