"""The health of a cluster in one word, where a state comes from, and how old it is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from streaming.status.build_status import cluster_status
from streaming.status.health import Health, health, worst
from tests.unit.rules.situation import (
    all_refuse,
    failing,
    healthy,
    leaderless,
    name_not_found,
    not_observed_for,
    observer,
    resolver_fails,
    static,
)
from tests.unit.streaming.status.statuses import state_of


def lost_committed(quorum: Quorum) -> Quorum:
    return name_not_found(quorum, 1, 2, 3)


@pytest.mark.parametrize(
    ("situation", "verdict", "code"),
    [
        (lambda quorum: quorum, Health.HEALTHY, 0),
        (static, Health.HEALTHY, 0),
        (lambda quorum: name_not_found(quorum, 2), Health.WARNING, 1),
        (lost_committed, Health.CRITICAL, 2),
        (lambda quorum: leaderless(quorum, 1, 2), Health.CRITICAL, 2),
        (all_refuse, Health.CRITICAL, 2),
        (lambda quorum: resolver_fails(quorum, 2), Health.UNKNOWN, 3),
        (lambda quorum: failing(not_observed_for(quorum), Reason.TIMED_OUT, "c1.test:9093"), Health.UNKNOWN, 3),
        (lambda quorum: name_not_found(resolver_fails(quorum, 2), 3), Health.WARNING, 1),
        # One spare observer gains nothing: that is information.
        (lambda quorum: observer(quorum, 4), Health.HEALTHY, 0),
    ],
)
def test_health_and_its_exit_code(situation: Callable[[Quorum], Quorum], verdict: Health, code: int) -> None:
    found = health(cluster_status(state_of(situation(healthy(3)))))

    assert (found, found.exit_code) == (verdict, code)


def test_missing_data_is_unknown_health() -> None:
    state = replace(state_of(healthy(3)), missing=("DescribeQuorum was not answered",))
    assert health(cluster_status(state)) is Health.UNKNOWN


def test_worst_health_of_several_clusters() -> None:
    assert worst([Health.HEALTHY, Health.UNKNOWN, Health.WARNING, Health.CRITICAL]) is Health.CRITICAL
    assert worst([Health.HEALTHY, Health.UNKNOWN, Health.WARNING]) is Health.WARNING
    assert worst([Health.HEALTHY, Health.UNKNOWN]) is Health.UNKNOWN
    assert worst([Health.HEALTHY, Health.HEALTHY]) is Health.HEALTHY
    assert worst([]) is Health.UNKNOWN


def test_source_and_age_of_a_state() -> None:
    old = not_observed_for(healthy(3), log_ms=90_000, poll_ms=90_000)

    assert (state_of(healthy(3)).source, state_of(healthy(3)).age_ms) == ("live", 0)
    assert state_of(old).source == "none"
    assert (state_of(old, recorded_ago_ms=90_000).source, state_of(old, recorded_ago_ms=90_000).age_ms) == (
        "journal",
        90_000,
    )
    assert state_of(healthy(3), recorded_ago_ms=90_000, live=False).source == "journal", "nobody was asked"
