"""version-drift: what nodes support against what is in force, and who was left behind."""

from dataclasses import replace

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import Book, advance
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    DAY_MS,
    findings,
    healthy,
    judged,
    registered,
    static,
    supporting,
    told,
    unknown,
    upgraded,
    with_broker,
)

HOUR_MS = 3_600_000
RULE = "version-drift"


@pytest.mark.parametrize(("ago_ms", "fires"), [(HOUR_MS, False), (4 * HOUR_MS - 1_000, False), (4 * HOUR_MS, True)])
def test_a_mixture_is_told_when_it_has_lasted_by_the_logs_own_time(ago_ms: int, fires: bool) -> None:
    quorum = upgraded(healthy(), 30, 1, 2, ago_ms=ago_ms)
    thresholds = thresholds_for({})
    _, alerts = advance(Book(), evaluate(quorum, thresholds), quorum, thresholds)
    assert [(each.rule, each.subject) for each in alerts] == [(RULE, "nodes")] * fires


def test_a_mixture_stands_since_the_later_of_its_two_sides_came() -> None:
    """An old node that joins a new cluster makes it mixed then, not when the others were upgraded."""
    joined = upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 27, 101, ago_ms=HOUR_MS)
    (finding,) = findings(joined, RULE)
    assert finding.standing_ms == HOUR_MS
    assert "broker 101 knows metadata.version up to 27, 4 others up to 30" in finding.summary


def test_what_was_left_behind_and_does_not_run_is_not_to_be_upgraded() -> None:
    quorum = upgraded(registered(with_broker(healthy(), 103, fenced=True), 4), 30, 1, 2, 3, 101)
    (finding,) = findings(quorum, RULE)
    upgrade, gone, *_ = finding.remedy
    assert upgrade == "# Upgrade broker 102 to the version of the others, one after the other"
    assert gone.startswith("# Not running: controller 4 and broker 103. Start it in the version of the others, or")
    assert finding.evidence["behind_and_not_running"] == ["controller 4", "broker 103"]


def test_another_feature_alone_is_a_mixture_too() -> None:
    quorum = healthy()
    odd = replace(quorum.controllers[NodeId(2)], features=supporting(27)[1:])
    (finding, *_) = findings(replace(quorum, controllers={**quorum.controllers, NodeId(2): odd}), RULE)
    assert finding.subject == "controller 2"
    assert "group.version 1, it knows group.version 0-0" in finding.summary


@pytest.mark.parametrize(
    ("quorum", "said"),
    [
        (upgraded(healthy(), 30, ago_ms=6 * DAY_MS), []),
        (upgraded(healthy(), 30, ago_ms=7 * DAY_MS), [f"info {RULE}: metadata.version"]),
        # The week begins when the last of them came up.
        (upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 30, 101, ago_ms=DAY_MS), []),
        # One that lags behind hides it: then that is what is told.
        (upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 29, 101), [f"warning {RULE}: nodes"]),
        (upgraded(static(healthy()), 27, ago_ms=7 * DAY_MS), [f"info {RULE}: kraft.version"]),
        # Kafka 4.0 knows kraft.version 1 and cannot get there.
        (replace(upgraded(static(healthy()), 25, ago_ms=7 * DAY_MS), metadata_version=25, features={}), []),
        (upgraded(healthy(), 25, 101), [f"warning {RULE}: broker 101", f"warning {RULE}: nodes"]),
    ],
)
def test_what_is_told(quorum: Quorum, said: list[str]) -> None:
    assert [each for each in told(quorum) if RULE in each] == said


def test_the_level_to_finalize_is_one_that_every_node_supports() -> None:
    (finding,) = findings(upgraded(healthy(), 30, ago_ms=8 * DAY_MS), RULE)
    assert "kafka-features.sh --bootstrap-controller c3.test:9093 upgrade --feature metadata.version=30" in (
        finding.remedy
    )


def test_a_registration_of_before_features_were_kept_is_unknown() -> None:
    quorum = healthy()
    old = replace(quorum.brokers[NodeId(101)], features=None, features_since_timestamp_ms=None)
    quorum = replace(upgraded(quorum, 30, 1), brokers={**quorum.brokers, NodeId(101): old})
    assert (RULE, None) in unknown(quorum)
    assert findings(quorum, RULE) == []


def test_thresholds_reach_it() -> None:
    quorum = upgraded(healthy(), 30, ago_ms=HOUR_MS)
    assert [each.subject for each in judged(quorum, {f"{RULE}.finalize": 3_000}).findings] == ["metadata.version"]
