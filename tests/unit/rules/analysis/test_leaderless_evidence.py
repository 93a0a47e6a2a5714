"""Which failed observations show that the quorum has no leader."""

from dataclasses import replace

import pytest

from rules.analysis.leadership import leaderless
from rules.model.monitoring import Reason
from tests.unit.rules.situation import all_refuse, failing, healthy, not_observed_for
from tests.unit.rules.situation import leaderless as without_leader


@pytest.mark.parametrize("reason", [Reason.TIMED_OUT, Reason.UNREACHABLE])
def test_a_broker_that_was_asked_too_is_none_of_the_controllers_that_refuse(reason: Reason) -> None:
    quorum = failing(replace(all_refuse(healthy()), committed=None), reason, "b101.test:9092")

    found = leaderless(quorum)

    assert found is not None
    assert found.refused == ("c1.test:9093", "c2.test:9093", "c3.test:9093")


def test_a_controller_that_times_out_may_lead() -> None:
    quorum = failing(replace(all_refuse(healthy()), committed=None), Reason.TIMED_OUT, "c4.test:9093")

    assert leaderless(quorum) is None


@pytest.mark.parametrize(("ago_ms", "counts"), [(0, True), (10_000, True), (10_001, False)])
def test_a_failure_counts_for_ten_seconds(ago_ms: int, counts: bool) -> None:
    quorum = failing(not_observed_for(healthy(), 60_000, 60_000), Reason.NO_LEADER, "c1.test:9093", ago_ms=ago_ms)

    assert (leaderless(quorum) is not None) is counts


@pytest.mark.parametrize(("newer_by_ms", "counts"), [(999, False), (1_000, True)])
def test_a_report_of_no_leader_is_newer_than_the_last_answer_of_a_leader(newer_by_ms: int, counts: bool) -> None:
    answered = not_observed_for(without_leader(healthy(), 1), log_ms=newer_by_ms, poll_ms=None)

    assert (leaderless(answered) is not None) is counts
