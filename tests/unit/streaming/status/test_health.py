"""The health of several clusters or without an answer, where a state comes from, and how old it is."""

from dataclasses import replace

from streaming.status.build_status import cluster_status
from streaming.status.health import Health, health, worst
from streaming.status.restart_output import evaluate_restart
from tests.situation.commands import situation
from tests.unit.streaming.status.statuses import state_of


def test_missing_data_is_unknown_health() -> None:
    state = replace(state_of(situation()), missing=("DescribeQuorum was not answered",))
    assert health(cluster_status(state)) is Health.UNKNOWN


def test_whether_a_restart_is_safe_is_not_known_by_what_a_job_recorded_before_the_command() -> None:
    answered = state_of(situation(), recorded_ago_ms=2_000)
    unanswered = replace(answered, missing=("DescribeQuorum was not answered",))

    assert evaluate_restart(answered, 2).safe
    answer = evaluate_restart(unanswered, 2)
    assert (answer.safe, answer.unknown) == (None, ("DescribeQuorum was not answered since this command began",))


def test_worst_health_of_several_clusters() -> None:
    assert worst([Health.HEALTHY, Health.UNKNOWN, Health.WARNING, Health.CRITICAL]) is Health.CRITICAL
    assert worst([Health.HEALTHY, Health.UNKNOWN, Health.WARNING]) is Health.WARNING
    assert worst([Health.HEALTHY, Health.UNKNOWN]) is Health.UNKNOWN
    assert worst([Health.HEALTHY, Health.HEALTHY]) is Health.HEALTHY
    assert worst([]) is Health.UNKNOWN


def test_source_and_age_of_a_state() -> None:
    healthy, old = situation(), situation("unanswered 90s")

    assert (state_of(healthy).source, state_of(healthy).age_ms) == ("live", 0)
    assert state_of(old).source == "none"
    assert (state_of(old, recorded_ago_ms=90_000).source, state_of(old, recorded_ago_ms=90_000).age_ms) == (
        "journal",
        90_000,
    )
    assert state_of(healthy, recorded_ago_ms=90_000, live=False).source == "journal", "nobody was asked"
