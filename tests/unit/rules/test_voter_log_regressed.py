"""A voter whose log ends before records that it acknowledged: critical until it has caught up, then a warning."""

from dataclasses import replace

import pytest

from rules.finding import Severity
from rules.model.identifiers import Millis, Offset
from rules.model.monitoring import Reason
from tests.unit.rules.situation import (
    evaluation_of,
    failing,
    findings,
    healthy,
    key,
    log_regressed,
    removed,
    static,
)

pytestmark = pytest.mark.kip("A004", "D093")

RULE = "voter-log-regressed"
HOUR_MS = 3_600_000


@pytest.mark.kip("A004", "D093", "K042")
def test_voter_that_has_not_caught_up_is_critical() -> None:
    (finding,) = findings(log_regressed(healthy(), 2), RULE)

    assert (finding.severity, finding.subject) == (Severity.CRITICAL, "voter 2")
    assert finding.summary.startswith(f"The log of voter {key(2)} went back: it ended at offset 3")
    assert finding.evidence["acknowledged_below_offset"] == 9_990
    assert finding.evidence["caught_up"] is False
    assert finding.remedy[0] == "# Do not stop or restart controllers 1 and 3 until controller 2 has caught up"


def test_another_controller_describes_the_quorum() -> None:
    """Controller 3 leads, and is asked first."""
    (finding,) = findings(log_regressed(healthy(), 3), RULE)
    (command,) = (step for step in finding.remedy if not step.startswith("#"))
    assert "--bootstrap-controller c3.test" not in command


@pytest.mark.kip("A004")
def test_no_step_names_a_new_directory_id_in_a_static_quorum() -> None:
    (finding,) = findings(log_regressed(static(healthy()), 2), RULE)
    assert finding.severity is Severity.CRITICAL
    assert "add it again" not in " ".join(finding.remedy)


@pytest.mark.parametrize(("ago_ms", "fires"), [(5_000, True), (HOUR_MS, True), (HOUR_MS + 1, False)])
def test_voter_that_has_caught_up_is_a_warning_for_an_hour(ago_ms: int, fires: bool) -> None:
    found = findings(log_regressed(healthy(), 2, end=9_990, ago_ms=ago_ms), RULE)
    assert [one.severity for one in found] == [Severity.WARNING] * fires
    assert not any("Do not stop" in line for one in found for line in one.remedy)


def test_voter_that_never_catches_up_fires_without_limit() -> None:
    (finding,) = findings(log_regressed(healthy(), 2, end=9_989, ago_ms=48 * HOUR_MS), RULE)
    assert finding.severity is Severity.CRITICAL


def test_a_removed_voter_is_over() -> None:
    assert findings(removed(log_regressed(healthy(), 2), 2, ago_ms=1_000), RULE) == []


def test_a_voter_whose_log_goes_back_after_a_loss_of_committed_metadata_is_reported() -> None:
    lost = failing(log_regressed(healthy(), 2), Reason.METADATA_LOST, "c3.test:9093", ago_ms=600_000)
    assert [one.severity for one in findings(lost, RULE)] == [Severity.CRITICAL]


def test_the_subject_stays_while_it_catches_up() -> None:
    behind, there = log_regressed(healthy(), 2), log_regressed(healthy(), 2, end=10_000)
    assert {one.subject for quorum in (behind, there) for one in findings(quorum, RULE)} == {"voter 2"}


def test_without_a_log_end_now_it_has_not_caught_up() -> None:
    quorum = log_regressed(healthy(), 2, end=None)
    (finding,) = findings(quorum, RULE)
    assert finding.severity is Severity.CRITICAL


def test_an_old_poll_leaves_it_unknown() -> None:
    quorum = log_regressed(healthy(), 2)
    assert quorum.poll is not None
    old = replace(quorum, poll=replace(quorum.poll, observed_at_ms=Millis(quorum.now_ms - 60_000)))
    assert (RULE, None) in {(one.rule, one.subject) for one in evaluation_of(old).unknown}
    assert quorum.poll.high_watermark == Offset(10_000)
