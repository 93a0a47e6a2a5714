"""The status that the job makes for page, metrics and API."""

from dataclasses import replace

from rules.evaluate import evaluate, thresholds_for, with_overrides
from rules.finding import Severity, Thresholds
from rules.lifecycle import TrackedCondition, TrackedConditions, advance
from rules.model.history import Election, RecentHistory
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from streaming.status.build_status import RECOVERING_LIMIT, job_cluster_status
from streaming.status.cluster_status import from_json, to_bytes
from tests.unit.rules.situation import NOW, TOPIC, healthy, leaderless, recovering, unclean, voter_not_fetching
from tests.unit.streaming.status.statuses import job_status


def test_healthy_cluster_is_live() -> None:
    status = job_status(healthy())
    assert (status["source"], status["leader_id"], status["failures_left"]) == ("live", 3, 1)
    assert [row["status"] for row in status["replicas"]][:3] == ["Leader", "Follower", "Follower"]
    assert status["now_ms"] == NOW


def test_cluster_without_an_answer_keeps_its_last_state() -> None:
    status = job_status(replace(leaderless(healthy()), now_ms=Millis(NOW + 60_000)))
    assert (status["source"], status["now_ms"] - status["described_at_ms"] >= 60_000) == ("journal", True)


def test_recovering_partitions_beyond_the_limit_are_counted() -> None:
    quorum = recovering(healthy(), 0)
    many = tuple(replace(quorum.recovering[0], partition=number) for number in range(RECOVERING_LIMIT + 5))
    status = job_status(replace(quorum, recovering=many))
    assert (status["recovering_partitions"], len(status["recovering"])) == (RECOVERING_LIMIT + 5, RECOVERING_LIMIT)
    assert status["recoveries"] == [
        {"topic": "orders", "topic_id": TOPIC, "since_ms": NOW - 75_300, "at_least": False, "partitions": 2_005}
    ]


def test_condition_before_its_hold_expires_is_pending() -> None:
    quorum, thresholds = voter_not_fetching(healthy(), 1), thresholds_for({})
    evaluation = evaluate(quorum, thresholds)
    tracked, _ = advance(TrackedConditions(), evaluation, quorum, thresholds)
    status = job_cluster_status(quorum, thresholds, evaluation, tracked)
    assert ("failure-tolerance", 120_000) in [
        (each.rule, each.due_at_ms - each.started_at_ms) for each in status.pending
    ]


def test_pending_conditions_are_those_that_do_not_fire_the_next_due_one_first() -> None:
    def condition(subject: str, *, started_ms: int, due_ms: int, firing: bool = False) -> TrackedCondition:
        return TrackedCondition(
            rule="epoch-churn",
            subject=subject,
            cluster_id="",
            started_at_ms=Millis(NOW + started_ms),
            due_at_ms=Millis(NOW + due_ms),
            last_seen_at_ms=NOW,
            notified_severity=Severity.WARNING if firing else None,
            summary=subject,
            evidence={},
        )

    conditions = (
        condition("later", started_ms=-9_000, due_ms=9_000),
        condition("sooner", started_ms=-1_000, due_ms=1_000),
        condition("fires", started_ms=-20_000, due_ms=-10_000, firing=True),
    )
    tracked = TrackedConditions(conditions={one.subject: one for one in conditions})
    status = job_cluster_status(healthy(), thresholds_for({}), tracked=tracked)
    assert [one.subject for one in status.pending] == ["sooner", "later"]


def test_a_topic_is_recovering_since_the_first_of_its_partitions() -> None:
    (shown,) = job_status(recovering(recovering(healthy(), 0), 3, for_ms=500_000))["recoveries"]
    assert (shown["since_ms"], shown["partitions"]) == (NOW - 500_300, 2)


def test_unclean_elections_of_a_topic_have_their_number_and_the_times_of_the_first_and_the_last() -> None:
    (one,) = unclean(healthy(), 0, 3).history.unclean
    history = RecentHistory(unclean=(replace(one, last_timestamp_ms=NOW),))
    (shown,) = job_status(replace(healthy(), history=history))["unclean"]
    assert (shown["elections"], shown["first_at_ms"], shown["last_at_ms"]) == (2, NOW - 45_300, NOW)


def test_status_survives_the_way_from_the_step_to_the_driver() -> None:
    quorum = recovering(voter_not_fetching(healthy(), 1), 0)
    won = Election(leader_id=NodeId(2), leader_epoch=Epoch(8), offset=Offset(70), timestamp_ms=Millis(NOW - 9_000))
    quorum = replace(quorum, history=RecentHistory(elections=(won,)))
    status = job_cluster_status(quorum, thresholds_for({}))
    assert from_json(to_bytes(status)) == status


def test_status_names_the_rules_that_the_configuration_changes() -> None:
    overrides = {
        "no-leader": Thresholds(severity=Severity.WARNING),
        "version-drift": Thresholds(enabled=False, severity=Severity.INFO),
    }

    status = job_cluster_status(healthy(), with_overrides(thresholds_for({}), overrides))

    assert [(each.rule, each.severity) for each in status.changed_severities] == [("no-leader", "warning")]
    assert [(each.rule, each.why) for each in status.not_applicable] == [
        ("version-drift", "disabled by the configuration")
    ]
    assert from_json(to_bytes(status)) == status
