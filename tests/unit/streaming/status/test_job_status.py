"""The status that the job makes for page, metrics and API."""

import pytest

from rules.evaluate import evaluate, thresholds_for, with_overrides
from rules.facts.quorum import Facts
from rules.finding import Severity, Thresholds
from rules.formatting import iso
from rules.lifecycle import TrackedCondition, TrackedConditions, advance
from rules.model.identifiers import Millis
from streaming.status.build_status import RECOVERING_LIMIT, job_cluster_status
from streaming.status.cluster_status import from_json, to_bytes
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.streaming.status.situation_views import SITUATIONS
from tests.unit.streaming.status.statuses import job_status


def test_recovering_partitions_beyond_the_limit_are_counted() -> None:
    status = job_status(situation(f"unclean orders 0-{RECOVERING_LIMIT + 4}"))
    assert (status["recovering_partitions"], len(status["recovering"])) == (RECOVERING_LIMIT + 5, RECOVERING_LIMIT)
    assert status["recoveries"] == [
        {
            "topic": "orders",
            "topic_id": "id-of-orders",
            "since": iso(Millis(NOW - 45_000)),
            "at_least": False,
            "partitions": 2_005,
        }
    ]


def test_condition_before_its_hold_expires_is_pending() -> None:
    quorum, thresholds = situation("stop-fetching 1"), thresholds_for({})
    evaluation = evaluate(Facts(quorum), thresholds)
    tracked, _ = advance(TrackedConditions(), evaluation, quorum, thresholds)
    status = job_cluster_status(Facts(quorum), thresholds, evaluation, tracked)
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
    status = job_cluster_status(Facts(situation()), thresholds_for({}), tracked=tracked)
    assert [one.subject for one in status.pending] == ["sooner", "later"]


@pytest.mark.parametrize("name", SITUATIONS)
def test_status_survives_the_way_from_the_step_to_the_driver(name: str) -> None:
    status = job_cluster_status(Facts(SITUATIONS[name]), thresholds_for({}))
    assert from_json(to_bytes(status)) == status


def test_status_names_the_rules_that_the_configuration_changes() -> None:
    overrides = {
        "no-leader": Thresholds(severity=Severity.WARNING),
        "version-drift": Thresholds(enabled=False, severity=Severity.INFO),
    }

    status = job_cluster_status(Facts(situation()), with_overrides(thresholds_for({}), overrides))

    assert [(each.rule, each.severity) for each in status.changed_severities] == [("no-leader", "warning")]
    assert [(each.rule, each.why) for each in status.not_applicable] == [
        ("version-drift", "disabled by the configuration")
    ]
    assert from_json(to_bytes(status)) == status
