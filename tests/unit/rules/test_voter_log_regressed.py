"""A voter whose log ends before records that it acknowledged: critical until it has caught up, then a warning."""

import pytest

from rules.finding import Severity
from rules.model.monitoring import Reason
from tests.unit.rules.situation import (
    failing,
    findings,
    healthy,
    log_regressed,
    removed,
    static,
)

pytestmark = pytest.mark.kip("A004", "D093")

RULE = "voter-log-regressed"
HOUR_MS = 3_600_000


@pytest.mark.kip("A004")
def test_no_step_names_a_new_directory_id_in_a_static_quorum() -> None:
    (finding,) = findings(log_regressed(static(healthy()), 2), RULE)
    assert finding.severity is Severity.CRITICAL
    assert "add it again" not in " ".join(finding.remedy)


def test_voter_that_never_catches_up_fires_without_limit() -> None:
    (finding,) = findings(log_regressed(healthy(), 2, end=9_989, ago_ms=48 * HOUR_MS), RULE)
    assert finding.severity is Severity.CRITICAL


def test_a_removed_voter_is_over() -> None:
    assert findings(removed(log_regressed(healthy(), 2), 2, ago_ms=1_000), RULE) == []


def test_a_voter_whose_log_goes_back_after_a_loss_of_committed_metadata_is_reported() -> None:
    lost = failing(log_regressed(healthy(), 2), Reason.METADATA_LOST, "c3.test:9093", ago_ms=600_000)
    assert [one.severity for one in findings(lost, RULE)] == [Severity.CRITICAL]


def test_without_a_log_end_now_it_has_not_caught_up() -> None:
    quorum = log_regressed(healthy(), 2, end=None)
    (finding,) = findings(quorum, RULE)
    assert finding.severity is Severity.CRITICAL
