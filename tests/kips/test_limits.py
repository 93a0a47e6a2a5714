"""Timeouts and invariants of all five KIPs: thresholds that must be longer, conditions that last, violations."""

from dataclasses import replace

import pytest

from connectors.gather.commit_buffer import LOSS_CONFIRM_MS
from connectors.metadata.batches import BadBatch, RecordBatch, scan
from connectors.metadata.decoder import decode_records
from connectors.observations.log_event import EpochDrop, LogAdvanced
from rules.alert import Alert
from rules.analysis.replica_lag import Liveness, liveness
from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.monitoring import Answer
from streaming.replay.cluster_monitor import ClusterMonitor
from tests.kips.test_kip_595_log import voters_record
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.rules.situation import (
    NOW,
    findings,
    healthy,
    key,
    leaderless,
    name_not_found,
    probed,
    refuses,
    voter_not_fetching,
)
from tests.unit.streaming.replay.log_script import SETTINGS, LogScript, again, apply, begun, machine, poll, replica

FETCH_TIMEOUT_MS, ELECTION_TIMEOUT_MS, BACKOFF_MAX_MS = 2_000, 1_000, 1_000
"""controller.quorum.fetch.timeout.ms, .election.timeout.ms and .election.backoff.max.ms of Kafka 4.3.1."""
REQUEST_TIMEOUT_MS = 2_000
CHECK_QUORUM_MS = FETCH_TIMEOUT_MS * 3 // 2
UPDATE_VOTER_MS = 3 * FETCH_TIMEOUT_MS
OBSERVER_FORGOTTEN_MS = 300_000
NOOP_INTERVAL_MS = 500
"""metadata.max.idle.interval.ms: an idle leader commits a record this often."""
DEFAULTS = thresholds_for({})


RULES_OF_FETCHES = (
    "no-leader",
    "stale-voter-endpoint",
    "voter-disk-replaced",
    "observer-could-be-voter",
    "voter-lagging",
    "failure-tolerance",
)


@pytest.mark.parametrize("timeout_ms", [FETCH_TIMEOUT_MS, 4_000, 12_000])
@pytest.mark.parametrize("rule", RULES_OF_FETCHES)
def test_a_voter_counts_as_not_fetching_after_five_fetch_timeouts(rule: str, timeout_ms: int) -> None:
    """Five times controller.quorum.fetch.timeout.ms by default; a quorum with a longer one has a longer threshold."""
    limit_ms = 5 * timeout_ms
    configured = {} if timeout_ms == FETCH_TIMEOUT_MS else {f"{rule}.fetch_age": limit_ms / 1_000}
    thresholds = thresholds_for(configured)[rule]
    assert thresholds.ms("fetch_age") == limit_ms

    def state(for_ms: int) -> Liveness:
        quorum = voter_not_fetching(healthy(), 2, for_ms=for_ms)
        return liveness(quorum, quorum.poll, key(2), thresholds)

    assert [state(limit_ms - 1), state(limit_ms), state(limit_ms + 1)] == [
        Liveness.FETCHING,
        Liveness.FETCHING,
        Liveness.NOT_FETCHING,
    ]


def test_no_leader_fires_after_an_election_and_its_backoff() -> None:
    election_ms = FETCH_TIMEOUT_MS + ELECTION_TIMEOUT_MS + BACKOFF_MAX_MS
    quorum, tracked, fired = leaderless(healthy(), 1), TrackedConditions(), []
    for later_ms in range(0, 7_001, 500):
        now = replace(
            quorum,
            now_ms=Millis(NOW + later_ms),
            failures=tuple(replace(each, last_at_ms=Millis(NOW + later_ms)) for each in quorum.failures),
        )
        tracked, alerts = advance(tracked, evaluate(now, DEFAULTS), now, DEFAULTS)
        fired += [(later_ms, alert.severity) for alert in alerts if alert.rule == "no-leader"]

    ((at_ms, severity),) = fired
    assert election_ms < at_ms <= 2 * election_ms
    assert severity == "critical"


def test_holds_are_longer_than_kafkas_own_timers() -> None:
    assert DEFAULTS["stale-voter-endpoint"].ms("hold") > 2 * UPDATE_VOTER_MS, "a voter that moved sends UpdateRaftVoter"
    assert DEFAULTS["observer-could-be-voter"].ms("removed_for") >= OBSERVER_FORGOTTEN_MS
    assert DEFAULTS["no-leader"].ms("hold") > CHECK_QUORUM_MS
    assert LOSS_CONFIRM_MS > CHECK_QUORUM_MS, "a leader without a majority answers until then"
    assert DEFAULTS["failure-tolerance"].ms("caught_up_age") > 2 * REQUEST_TIMEOUT_MS
    assert DEFAULTS["no-leader"].ms("answer_age") > 2 * REQUEST_TIMEOUT_MS
    assert DEFAULTS["high-watermark-stalled"].ms("still") >= 10 * NOOP_INTERVAL_MS
    for rule in RULES_OF_FETCHES:
        assert DEFAULTS[rule].ms("fetch_age") > 2 * REQUEST_TIMEOUT_MS, "a request is given up and repeated"


@pytest.mark.parametrize("rule", ["partition-stuck-recovering", "observer-could-be-voter", "stale-voter-endpoint"])
def test_the_three_thresholds_without_a_value_in_the_texts_have_configurable_defaults(rule: str) -> None:
    assert 0 < DEFAULTS[rule].ms("hold") <= OBSERVER_FORGOTTEN_MS, "minutes"
    assert thresholds_for({f"{rule}.hold": 7.5})[rule].ms("hold") == 7_500


def test_an_open_transaction_at_the_end_of_the_read_log_fires_until_it_ends() -> None:
    """In a complete file this is an error; in a stream the end may follow, also after a restart of the monitor."""
    script, replay = begun()
    script.begin()
    assert len(findings(apply(replay, [script.read()]), "open-transaction")) == 1, "also without any record"
    script.broker(101)
    opened = apply(replay, [script.read()])
    assert opened.brokers == {}
    (said,) = findings(opened, "open-transaction")
    assert "It begins at offset 1" in said.summary

    replay = again(replay.to_bytes())
    script.broker(102)
    assert len(findings(apply(replay, [script.read()]), "open-transaction")) == 1
    script.end()
    ended = apply(replay, [script.read()])

    assert set(ended.brokers) == {101, 102}
    assert findings(ended, "open-transaction") == []


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


RAFT, STALE = "raft-invariant-broken", "stale-voter-endpoint"


@pytest.mark.parametrize("leaders", [((1, 5), (2, 5)), ((1, 5), (2, 6), (3, 5))], ids=["at once", "in a former epoch"])
def test_two_controllers_that_answer_as_leaders_of_one_epoch_are_critical(leaders: tuple[tuple[int, int], ...]) -> None:
    script, replay = LogScript(), machine()
    polls = [poll(replica("1-a"), replica("2-b"), leader=leader, epoch=epoch, hw=50) for leader, epoch in leaders]

    (said,) = findings(apply(replay, [script.row(polled) for polled in polls]), RAFT)

    assert f"{said.severity} {said.summary}".startswith("critical An epoch had two leaders")


@pytest.mark.parametrize("lower", [40, 49])
def test_the_reported_high_watermark_never_decreases_and_a_decrease_fires(lower: int) -> None:
    script, replay = LogScript(), machine()
    assert findings(apply(replay, [script.row(poll(replica("1-a"), hw=hw)) for hw in (40, 50)]), RAFT) == []

    quorum = apply(replay, [script.row(poll(replica("1-a"), hw=lower))])

    assert quorum.high_watermark == 50
    (said,) = findings(quorum, RAFT)
    assert f"{said.severity} {said.summary}".startswith("critical The high watermark went back")


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


def test_a_hanging_majority_raises_no_endpoint_alert() -> None:
    """Endpoint remedies would not help here; names that do not resolve are in the remedy of `no-leader`."""
    silent = voter_not_fetching(voter_not_fetching(healthy(), 1), 2)
    hung = probed(probed(silent, 1, answer=Answer.NO_ANSWER), 2, answer=Answer.NO_ANSWER)
    (no_leader,) = findings(leaderless(hung, 3), "no-leader")
    assert findings(leaderless(hung, 3), STALE) == findings(hung, STALE) == []
    assert no_leader.severity == "critical"

    (unresolved,) = findings(leaderless(name_not_found(healthy(), 1, 2, 3), 3), "no-leader")
    assert sum("resolve again" in line for line in unresolved.remedy) >= 3
    (dead,) = findings(leaderless(refuses(healthy(), 1, 2), 3), "no-leader")
    assert dead.evidence["electable_if_refusing_voters_are_down"] is False
    assert findings(leaderless(refuses(healthy(), 1, 2), 3), STALE) == []
    (one_down,) = findings(leaderless(refuses(healthy(), 1), 3), "no-leader")
    assert not any("no safe recovery" in step for step in one_down.remedy), "a majority is left"
    assert dead.remedy[0].startswith("# Start controller 1 at c1.test:9093")
    assert any("no safe recovery" in step and "an override of the voters does not help" in step for step in dead.remedy)
