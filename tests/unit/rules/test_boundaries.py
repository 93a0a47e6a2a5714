"""Each threshold of a rule from both sides: the result just below it, at it, and just above it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from rules.evaluate import INHIBITED, RULES, thresholds_for
from rules.model.history import ZkMigrationState
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import Answer, Connection
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    begun,
    broker_lagging,
    elected,
    epoch_jumped,
    evaluation_of,
    failing_again,
    flapping,
    forced_change,
    healthy,
    leader_log,
    leaders_clock,
    log_regressed,
    made_dynamic,
    migrating,
    name_not_found,
    not_observed_for,
    observer,
    probed,
    reassigned,
    recovering,
    removed,
    removed_repeatedly,
    restarting,
    shutting_down,
    silent,
    snapshots,
    stalled,
    unclean,
    upgraded,
    view,
    voter_not_fetching,
    voters_lagging,
    with_broker,
    with_certificates,
    with_contract_violation,
    with_views,
    without_brokers,
)


def copying(quorum: Quorum, assigned_ago_ms: int) -> Quorum:
    """A reassignment has added a replica to a recovering partition with one replica."""
    (stuck,) = recovering(quorum, 0).recovering
    since = Millis(NOW - 300 - assigned_ago_ms)
    return replace(quorum, recovering=(replace(stuck, added=(NodeId(101),), added_timestamp_ms=since),))


LAST_WARNING = "no, no, warning"
FROM_WARNING = "no, warning, warning"
UP_TO_WARNING = "warning, warning, no"
BOUNDARIES: dict[str, tuple[int, str, Callable[[int], Quorum]]] = {
    "failure-tolerance.fetch_age": (10_000, LAST_WARNING, lambda ms: voter_not_fetching(healthy(), 2, for_ms=ms)),
    "failure-tolerance.caught_up_age": (
        10_000,
        "no, no, critical",
        lambda ms: voters_lagging(healthy(), 1, 2, for_ms=ms),
    ),
    "failure-tolerance.poll_age": (
        10_000,
        "warning, warning, unknown",
        lambda ms: not_observed_for(voter_not_fetching(healthy(), 2), None, ms),
    ),
    "failure-tolerance.share": (
        360_000,
        FROM_WARNING,
        lambda ms: failing_again(healthy(), 2, 6, for_ms=ms // 6, every_ms=140_000),
    ),
    "voter-lagging.fetch_age": (10_000, LAST_WARNING, lambda ms: voter_not_fetching(healthy(5), 2, for_ms=ms)),
    "voter-lagging.caught_up_age": (10_000, LAST_WARNING, lambda ms: voters_lagging(healthy(5), 2, for_ms=ms)),
    "stale-voter-endpoint.probe_age": (
        30_000,
        "warning, warning, unknown",
        lambda ms: probed(healthy(), 1, connection=Connection.REFUSED, answer=Answer.NOT_ASKED, ago_ms=ms),
    ),
    "stale-voter-endpoint.fetch_age": (
        10_000,
        "warning, warning, unknown",
        lambda ms: name_not_found(voter_not_fetching(healthy(), 2, for_ms=ms), 2),
    ),
    "views-disagree.view_age": (
        30_000,
        "critical, critical, unknown",
        lambda ms: with_views(healthy(), view(1, leader=2, ago_ms=ms)),
    ),
    "voter-lagging.catching_up_for": (
        3_600_000,
        "unknown, warning, warning",
        lambda ms: voters_lagging(healthy(5), 2, for_ms=ms, lags=range(ms + 11, ms - 1, -1)),
    ),
    "observer-lagging.catching_up_for": (
        3_600_000,
        "unknown, warning, warning",
        lambda ms: broker_lagging(healthy(), 101, for_ms=ms, lags=range(ms + 11, ms - 1, -1)),
    ),
    "observer-lagging.lag": (30_000, LAST_WARNING, lambda ms: broker_lagging(healthy(), 101, for_ms=ms)),
    "observer-lagging.fetch_age": (
        10_000,
        LAST_WARNING,
        lambda ms: broker_lagging(healthy(), 101, for_ms=ms, silent=True),
    ),
    "operation-unfinished.reassigned_for": (
        86_400_000,
        FROM_WARNING,
        lambda ms: reassigned(healthy(), adding=(101,), ago_ms=ms),
    ),
    "operation-unfinished.blocked_for": (
        900_000,
        FROM_WARNING,
        lambda ms: reassigned(healthy(), adding=(109,), ago_ms=ms),
    ),
    "operation-unfinished.shutting_down_for": (
        600_000,
        FROM_WARNING,
        lambda ms: shutting_down(healthy(), 101, ago_ms=ms),
    ),
    "operation-unfinished.prepared_for": (
        86_400_000,
        FROM_WARNING,
        lambda ms: migrating(healthy(), ZkMigrationState.PRE_MIGRATION, ago_ms=ms),
    ),
    "operation-unfinished.migrated_for": (
        604_800_000,
        FROM_WARNING,
        lambda ms: migrating(healthy(), ZkMigrationState.MIGRATION, ago_ms=ms),
    ),
    "node-not-registered.fetch_age": (
        10_000,
        UP_TO_WARNING,
        lambda ms: observer(healthy(), 103, registered=False, lags=(ms,) * 30, fetched_ago_ms=ms),
    ),
    "no-broker.new_for": (3_600_000, FROM_WARNING, lambda ms: without_brokers(begun(healthy(), ago_ms=ms))),
    "controller-stuck.still": (12_000, "no, no, critical", lambda ms: silent(healthy(), for_ms=ms)),
    "high-watermark-stalled.still": (10_000, "no, no, critical", lambda ms: stalled(healthy(), for_ms=ms)),
    "voter-disk-replaced.fetch_age": (
        10_000,
        LAST_WARNING,
        lambda ms: observer(voter_not_fetching(healthy(), 2, for_ms=ms), 2, directory="new"),
    ),
    "voter-disk-replaced.half_done": (
        86_400_000,
        UP_TO_WARNING,
        lambda ms: removed(observer(voter_not_fetching(healthy(), 2), 2, directory="new"), 2, ago_ms=ms),
    ),
    "observer-could-be-voter.removed_for": (
        300_000,
        FROM_WARNING,
        lambda ms: observer(removed(healthy(5), 2, ago_ms=ms), 2),
    ),
    "observer-could-be-voter.half_done": (
        86_400_000,
        "no, no, warning",
        lambda ms: removed(observer(voter_not_fetching(healthy(), 2), 2, directory="new"), 2, ago_ms=ms),
    ),
    "observer-could-be-voter.fetch_age": (
        10_000,
        "info, info, unknown",
        lambda ms: observer(healthy(), 4, fetched_ago_ms=ms, lags=(ms,) * 30),
    ),
    "unclean-election.keep_firing_for": (
        600_000,
        "critical, critical, no",
        lambda ms: unclean(healthy(), 0, ago_ms=ms),
    ),
    "forced-reconfiguration.keep_firing_for": (
        3_600_000,
        "info, info, no",
        lambda ms: forced_change(healthy(), before=(1, 2, 3), after=(3,), ago_ms=ms),
    ),
    "voter-log-regressed.keep_firing_for": (
        3_600_000,
        UP_TO_WARNING,
        lambda ms: log_regressed(healthy(), 2, end=9_990, ago_ms=ms),
    ),
    "data-contract-broken.stands": (
        1_800_000,
        UP_TO_WARNING,
        lambda ms: with_contract_violation(healthy(), "every-record-decodes", ago_ms=ms),
    ),
    "broker-flapping.fencings": (4, FROM_WARNING, lambda times: flapping(healthy(), 101, times)),
    "node-restarting.slow_starts": (4, FROM_WARNING, lambda times: restarting(healthy(), 2, times, every_ms=3_000_000)),
    "node-restarting.starts": (3, FROM_WARNING, lambda times: restarting(healthy(), 2, times)),
    "node-restarting.window": (450_000, UP_TO_WARNING, lambda ms: restarting(healthy(), 2, 3, every_ms=ms)),
    "epoch-churn.elections": (4, FROM_WARNING, lambda times: elected(healthy(), *(1, 2, 1, 2, 1)[:times])),
    "epoch-churn.window": (300_000, UP_TO_WARNING, lambda ms: elected(healthy(), 1, 2, 1, 2, every_ms=ms)),
    "epoch-churn.jump": (10, FROM_WARNING, lambda epochs: epoch_jumped(healthy(), epochs, after_ms=100)),
    "epoch-churn.election_time": (10, LAST_WARNING, lambda epochs: epoch_jumped(healthy(), epochs, after_ms=10_000)),
    "voter-change-stuck.removals": (
        3,
        FROM_WARNING,
        lambda times: removed_repeatedly(healthy(), 2, ago_s=tuple(range(3 * times, 0, -3))),
    ),
    "voter-change-stuck.window": (
        900,
        UP_TO_WARNING,
        lambda seconds: removed_repeatedly(healthy(), 2, ago_s=(seconds, 5, 1)),
    ),
    "snapshot-stale.age": (10_800_000, LAST_WARNING, lambda ms: snapshots(healthy(), leader_log(ms, end=800))),
    "certificate-expiring.warning": (
        14_000,
        "warning, no, no",
        lambda thousandths: with_certificates(healthy(), days={1: thousandths / 1_000}),
    ),
    "certificate-expiring.critical": (
        3_000,
        "critical, warning, warning",
        lambda thousandths: with_certificates(healthy(), days={1: thousandths / 1_000}),
    ),
    "quorum-shape.most": (7, "info, no, info", healthy),
    "version-drift.keep_firing_for": (3_600_000, "info, info, no", lambda ms: made_dynamic(healthy(), ago_ms=ms)),
    "version-drift.finalize": (604_800_000, "no, info, info", lambda ms: upgraded(healthy(), 30, ago_ms=ms)),
    "leader-clock-skew.skew": (60_000, LAST_WARNING, lambda ms: leaders_clock(healthy(), ahead_ms=ms - 200)),
    "partition-stuck-recovering.copy": (3_600_000, "info, critical, critical", lambda ms: copying(healthy(), ms)),
    "partition-stuck-recovering.join": (
        30_000,
        "warning, critical, critical",
        lambda ms: recovering(with_broker(healthy(), 101, alive_for_ms=ms), 0),
    ),
}
"""By `RULE.THRESHOLD`: the limit, the results below, at and above it, and the situation with such a value."""

NOT_ALONE = {
    *("failure-tolerance.fetch_age", "voter-lagging.fetch_age", "epoch-churn.election_time", "quorum-shape.most"),
    "node-restarting.starts",
}
"""Where another threshold has the same result, or a larger value the opposite one."""


def result(rule: str, quorum: Quorum, overrides: Mapping[str, float] | None = None) -> str:
    """Returns the severity of the rule's finding, `unknown` or `no`."""
    evaluation = evaluation_of(quorum, overrides)
    severities = [each.severity.value for each in evaluation.findings if each.rule == rule]
    gaps = [each for each in evaluation.unknown if each.rule == rule and not each.why.startswith(INHIBITED)]
    return severities[0] if severities else "unknown" if gaps else "no"


@pytest.mark.parametrize("key", BOUNDARIES)
def test_result_below_at_and_above_a_threshold(key: str) -> None:
    (limit, expected, situation), rule = BOUNDARIES[key], key.partition(".")[0]
    assert key in {f"{rule}.{each.name}" for each in RULES[rule].thresholds}
    results = [result(rule, situation(value)) for value in (limit - 1, limit, limit + 1)]
    assert ", ".join(results) == expected


@pytest.mark.parametrize("key", [key for key in BOUNDARIES if key not in NOT_ALONE])
def test_twice_the_threshold_gives_above_it_what_was_below_it(key: str) -> None:
    (limit, expected, situation), (rule, _, threshold) = BOUNDARIES[key], key.partition(".")
    twice = {key: 2 * thresholds_for({})[rule][threshold]}
    assert result(rule, situation(limit + 1), twice) == expected.partition(",")[0]


def test_the_window_of_outages_can_be_configured() -> None:
    """Nine minutes without reserve are enough of a quarter of an hour, and not of half an hour."""
    quorum = failing_again(healthy(), 2, 9)
    results = [
        result("failure-tolerance", quorum, {"failure-tolerance.window": window}) for window in (900, 1_350, 1_351)
    ]
    assert results == ["warning", "warning", "no"]
