"""committed-metadata-lost, raft-invariant-broken and voter-log-regressed: metadata that Raft does not lose."""

from dataclasses import replace

import pytest

from rules.finding import Severity
from rules.formatting import utc_text
from rules.model.identifiers import Epoch, Millis
from rules.model.monitoring import Invariant, Reason
from tests.unit.rules.situation import (
    NOW,
    all_refuse,
    failing,
    finding_lines,
    findings,
    healthy,
    leader_log,
    log_regressed,
    present,
    removed,
    static,
    unknown,
    view,
    with_invariant_violation,
    with_views,
)

LOST, BROKEN, REGRESSED = "committed-metadata-lost", "raft-invariant-broken", "voter-log-regressed"


@pytest.mark.parametrize(
    ("begun_ago_ms", "known_for_ms", "snapshot", "again"),
    [
        (120_000, 180_001, False, True),
        # The log may have begun before the cluster was known, or is older; a snapshot hides its beginning.
        (120_000, 180_000, False, False),
        (3_600_000, 4_000_000, False, True),
        (3_600_001, 4_000_000, False, False),
        (120_000, 180_001, True, False),
    ],
)
def test_a_log_that_began_after_the_cluster_was_known_is_that_of_a_new_quorum(
    begun_ago_ms: int, known_for_ms: int, snapshot: bool, again: bool
) -> None:
    quorum = failing(healthy(), Reason.METADATA_LOST, "c1.test:9093", detail="the log ends at 40")
    newest = present(quorum.newest_timestamp_ms)
    log = replace(leader_log(1_000 if snapshot else None), begins_timestamp_ms=Millis(newest - begun_ago_ms))
    since_ms = Millis(quorum.now_ms - known_for_ms)
    histories = {each: replace(one, first_seen_at_ms=since_ms) for each, one in quorum.histories.items()}
    quorum = with_views(replace(quorum, histories=histories), replace(view(3), log=log))
    (finding,) = findings(quorum, LOST)

    assert finding.summary.startswith("The quorum was formatted again with the old cluster id") is again
    assert finding.remedy[0].startswith("# Stop every broker first and start none" if again else "# If all controllers")


@pytest.mark.parametrize("is_static", [False, True])
def test_in_a_static_quorum_new_controllers_may_have_elected_a_leader_by_another_list(is_static: bool) -> None:
    quorum = failing(healthy(), Reason.METADATA_LOST, "c1.test:9093", detail="the log ends at 40")
    (finding,) = findings(static(quorum) if is_static else quorum, LOST)
    assert any("controller.quorum.voters" in step for step in finding.remedy) is is_static


def test_two_losses_are_one_finding_about_the_metadata_log() -> None:
    lost = failing(healthy(), Reason.METADATA_LOST, "c1.test:9093", detail="the log ends at 40", ago_ms=60_000)
    lost = failing(lost, Reason.METADATA_LOST, "c2.test:9093", detail="the log ends at 30")
    (finding,) = findings(lost, LOST)

    assert (finding.subject, finding.severity) == ("metadata log", Severity.CRITICAL)
    assert finding.summary == (
        "Committed metadata was lost: the log ends at 30 (reported by c2.test:9093). "
        "Topics, configurations and ACLs may be missing."
    )
    losses = finding.evidence["losses"]
    assert isinstance(losses, list)
    assert [(each["detail"], each["reported_by"]) for each in losses if isinstance(each, dict)] == [
        ("the log ends at 40", "c1.test:9093"),
        ("the log ends at 30", "c2.test:9093"),
    ]


def test_a_loss_fires_without_a_leader_and_without_any_other_observation() -> None:
    dead = failing(all_refuse(healthy()), Reason.METADATA_LOST, "", detail="offset 30 is written again")
    assert "critical committed-metadata-lost: metadata log" in finding_lines(dead)
    (finding,) = findings(replace(dead, committed=None, poll=None, leader_id=None), LOST)
    assert finding.summary == (
        "Committed metadata was lost: offset 30 is written again. Topics, configurations and ACLs may be missing."
    )
    losses = finding.evidence["losses"]
    assert isinstance(losses, list)
    assert [each["reported_by"] for each in losses if isinstance(each, dict)] == [None]


def test_each_broken_invariant_is_critical() -> None:
    assert finding_lines(with_invariant_violation(healthy(), *Invariant)) == [
        "critical raft-invariant-broken: two-leaders",
        "critical raft-invariant-broken: epoch-back",
        "critical raft-invariant-broken: high-watermark-back",
        "critical raft-invariant-broken: elected-by-minority",
        "critical raft-invariant-broken: voters-before-leader",
    ]


def test_several_violations_of_one_invariant_are_one_finding() -> None:
    quorum = with_invariant_violation(
        with_invariant_violation(healthy(), Invariant.EPOCH_BACK), Invariant.EPOCH_BACK, ago_ms=1_000
    )
    first, second = quorum.invariant_violations
    second = replace(second, epoch=Epoch(8), detail="controller 2 and then controller 3 led epoch 8")
    (finding,) = findings(replace(quorum, invariant_violations=(first, second)), BROKEN)
    violations = finding.evidence["violations"]
    assert violations == [
        {"violation": each.detail, "observed": utc_text(each.observed_at_ms)} for each in (first, second)
    ]
    assert (finding.evidence["epoch"], second.detail in finding.summary) == (8, True), "the newest one"


@pytest.mark.parametrize(
    ("violated_ago_ms", "explained"),
    [(110_001, False), (110_000, True), (50_000, True), (30_000, True), (-30_000, True), (-30_001, False)],
)
def test_a_loss_explains_violations_from_a_minute_before_it_to_a_minute_after_it(
    violated_ago_ms: int, explained: bool
) -> None:
    """The loss was observed from 50 s ago to 30 s ago."""
    quorum = failing(
        with_invariant_violation(healthy(), Invariant.EPOCH_BACK, ago_ms=violated_ago_ms),
        Reason.METADATA_LOST,
        "c1.test:9093",
        ago_ms=30_000,
    )
    (loss,) = quorum.failures
    quorum = replace(quorum, failures=(replace(loss, first_at_ms=Millis(NOW - 50_000)),))

    assert (findings(quorum, BROKEN) == []) is explained
    assert ((BROKEN, "epoch-back") in unknown(quorum)) is explained


def test_no_step_names_a_new_directory_id_in_a_static_quorum() -> None:
    (finding,) = findings(log_regressed(static(healthy()), 2), REGRESSED)
    assert finding.severity is Severity.CRITICAL
    assert "add it again" not in " ".join(finding.remedy)


def test_voter_that_never_catches_up_fires_without_limit() -> None:
    (finding,) = findings(log_regressed(healthy(), 2, end=9_989, ago_ms=48 * 3_600_000), REGRESSED)
    assert finding.severity is Severity.CRITICAL


def test_a_removed_voter_is_over() -> None:
    assert findings(removed(log_regressed(healthy(), 2), 2, ago_ms=1_000), REGRESSED) == []


def test_a_voter_whose_log_goes_back_after_a_loss_of_committed_metadata_is_reported() -> None:
    lost = failing(log_regressed(healthy(), 2), Reason.METADATA_LOST, "c3.test:9093", ago_ms=600_000)
    assert [one.severity for one in findings(lost, REGRESSED)] == [Severity.CRITICAL]


def test_without_a_log_end_now_it_has_not_caught_up() -> None:
    quorum = log_regressed(healthy(), 2, end=None)
    (finding,) = findings(quorum, REGRESSED)
    assert finding.severity is Severity.CRITICAL
