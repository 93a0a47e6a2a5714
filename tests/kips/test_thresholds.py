"""The timeouts of the texts with Kafka's defaults, and the thresholds that must be longer."""

from dataclasses import replace

import pytest

from connectors.gather.commit_buffer import LOSS_CONFIRM_MS
from rules.analysis.replica_lag import Liveness, liveness
from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from tests.unit.rules.situation import NOW, healthy, key, leaderless, voter_not_fetching

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


@pytest.mark.kip("D008", "D016", "K035")
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


@pytest.mark.kip("A029", "D008", "D009", "D010", "D016", "D088", "K035")
@pytest.mark.parametrize("started_ms", [0])
def test_no_leader_fires_after_an_election_and_its_backoff(started_ms: int) -> None:
    election_ms = FETCH_TIMEOUT_MS + ELECTION_TIMEOUT_MS + BACKOFF_MAX_MS
    quorum, tracked, fired = leaderless(healthy(), 1), TrackedConditions(), []
    for later_ms in range(started_ms, 7_001, 500):
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


@pytest.mark.kip("D011", "D012", "E074", "K035", "K036")
def test_holds_are_longer_than_kafkas_own_timers() -> None:
    assert DEFAULTS["stale-voter-endpoint"].ms("hold") > 2 * UPDATE_VOTER_MS, "a voter that moved tells its new place"
    assert DEFAULTS["observer-could-be-voter"].ms("removed_for") >= OBSERVER_FORGOTTEN_MS
    assert DEFAULTS["no-leader"].ms("hold") > CHECK_QUORUM_MS
    assert LOSS_CONFIRM_MS > CHECK_QUORUM_MS, "a leader without a majority answers until then"
    assert DEFAULTS["failure-tolerance"].ms("caught_up_age") > 2 * REQUEST_TIMEOUT_MS
    assert DEFAULTS["no-leader"].ms("answer_age") > 2 * REQUEST_TIMEOUT_MS
    assert DEFAULTS["high-watermark-stalled"].ms("still") >= 10 * NOOP_INTERVAL_MS
    for rule in RULES_OF_FETCHES:
        assert DEFAULTS[rule].ms("fetch_age") > 2 * REQUEST_TIMEOUT_MS, "a request is given up and repeated"


@pytest.mark.kip("B047", "E005", "K038")
@pytest.mark.parametrize("rule", ["partition-stuck-recovering", "observer-could-be-voter", "stale-voter-endpoint"])
def test_the_three_thresholds_without_a_value_in_the_texts_have_configurable_defaults(rule: str) -> None:
    assert 0 < DEFAULTS[rule].ms("hold") <= OBSERVER_FORGOTTEN_MS, "minutes"
    assert thresholds_for({f"{rule}.hold": 7})[rule].ms("hold") == 7_000
