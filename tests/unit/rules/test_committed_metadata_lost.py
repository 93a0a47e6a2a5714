"""committed-metadata-lost: each reported loss is in one finding about the metadata log."""

from dataclasses import replace

from rules.finding import Severity
from rules.model.monitoring import Reason
from tests.unit.rules.situation import all_refuse, failing, finding_lines, findings, healthy

RULE = "committed-metadata-lost"


def test_two_losses_are_one_finding_about_the_metadata_log() -> None:
    lost = failing(healthy(), Reason.METADATA_LOST, "c1.test:9093", detail="the log ends at 40", ago_ms=60_000)
    lost = failing(lost, Reason.METADATA_LOST, "c2.test:9093", detail="the log ends at 30")
    (finding,) = findings(lost, RULE)

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
    (finding,) = findings(replace(dead, committed=None, poll=None, leader_id=None), RULE)
    assert finding.summary == (
        "Committed metadata was lost: offset 30 is written again. Topics, configurations and ACLs may be missing."
    )
    losses = finding.evidence["losses"]
    assert isinstance(losses, list)
    assert [each["reported_by"] for each in losses if isinstance(each, dict)] == [None]
