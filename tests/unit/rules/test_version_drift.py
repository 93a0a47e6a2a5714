"""version-drift: supported levels against finalized levels, and nodes that were not upgraded."""

from dataclasses import replace

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    DAY_MS,
    evaluation_of,
    finding_lines,
    findings,
    healthy,
    registered,
    static,
    supporting,
    unknown,
    upgraded,
    with_broker,
)

HOUR_MS = 3_600_000
RULE = "version-drift"


@pytest.mark.parametrize(("ago_ms", "fires"), [(HOUR_MS, False), (4 * HOUR_MS - 1_000, False), (4 * HOUR_MS, True)])
def test_mixed_versions_fire_after_the_hold_by_the_timestamps_in_the_log(ago_ms: int, fires: bool) -> None:
    quorum = upgraded(healthy(), 30, 1, 2, ago_ms=ago_ms)
    thresholds = thresholds_for({})
    _, alerts = advance(TrackedConditions(), evaluate(quorum, thresholds), quorum, thresholds)
    assert [(each.rule, each.subject) for each in alerts] == [(RULE, "nodes")] * fires


def test_age_of_mixed_versions_begins_with_the_later_of_the_two_versions() -> None:
    """An old node that joins an upgraded cluster makes it mixed when it joins, not when the others were upgraded."""
    joined = upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 27, 101, ago_ms=HOUR_MS)
    (finding,) = findings(joined, RULE)
    assert finding.condition_age_ms == HOUR_MS
    assert "broker 101 supports metadata.version up to 27, 4 other nodes up to 30" in finding.summary


def test_outdated_node_that_does_not_run_gets_its_own_remedy() -> None:
    quorum = upgraded(registered(with_broker(healthy(), 103, fenced=True), 4), 30, 1, 2, 3, 101)
    (finding,) = findings(quorum, RULE)
    upgrade, stopped, *_ = finding.remedy
    assert upgrade == "# Upgrade broker 102 to the version of the others, one after the other"
    assert stopped.startswith(
        "# Start controller 4 and broker 103 (not running) with the version of the others, or remove its registration"
    )
    assert finding.evidence["outdated_and_not_running"] == ["controller 4", "broker 103"]


def test_difference_in_another_feature_is_reported() -> None:
    quorum = healthy()
    odd = replace(quorum.controllers[NodeId(2)], features=supporting(27)[1:])
    (finding, *_) = findings(replace(quorum, controllers={**quorum.controllers, NodeId(2): odd}), RULE)
    assert finding.subject == "controller 2"
    assert "group.version 1 (it supports group.version 0-0)" in finding.summary


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (upgraded(healthy(), 30, ago_ms=6 * DAY_MS), []),
        (upgraded(healthy(), 30, ago_ms=7 * DAY_MS), [f"info {RULE}: metadata.version"]),
        # The week begins when the last node registered the version.
        (upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 30, 101, ago_ms=DAY_MS), []),
        # One outdated node: mixed versions are reported instead.
        (upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 29, 101), [f"warning {RULE}: nodes"]),
        (upgraded(static(healthy()), 27, ago_ms=7 * DAY_MS), [f"info {RULE}: kraft.version"]),
        # Kafka 4.0 supports kraft.version 1 and cannot upgrade to it.
        (replace(upgraded(static(healthy()), 25, ago_ms=7 * DAY_MS), metadata_version=25, features={}), []),
        (upgraded(healthy(), 25, 101), [f"warning {RULE}: broker 101", f"warning {RULE}: nodes"]),
    ],
)
def test_findings_by_supported_and_finalized_levels(quorum: Quorum, expected: list[str]) -> None:
    assert [each for each in finding_lines(quorum) if RULE in each] == expected


def test_remedy_finalizes_a_level_that_every_node_supports() -> None:
    (finding,) = findings(upgraded(healthy(), 30, ago_ms=8 * DAY_MS), RULE)
    assert "kafka-features.sh --bootstrap-controller c3.test:9093 upgrade --feature metadata.version=30" in (
        finding.remedy
    )


def test_result_is_unknown_for_a_registration_without_features() -> None:
    quorum = healthy()
    old = replace(quorum.brokers[NodeId(101)], features=None, features_since_timestamp_ms=None)
    quorum = replace(upgraded(quorum, 30, 1), brokers={**quorum.brokers, NodeId(101): old})
    assert (RULE, None) in unknown(quorum)
    assert findings(quorum, RULE) == []


def test_finalize_threshold_is_configurable() -> None:
    quorum = upgraded(healthy(), 30, ago_ms=HOUR_MS)
    assert [each.subject for each in evaluation_of(quorum, {f"{RULE}.finalize": 3_000}).findings] == [
        "metadata.version"
    ]
