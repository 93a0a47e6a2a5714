from rules.finding import Severity
from tests.unit.rules.situation import breached, findings, healthy, told

MINUTE = 60_000


def test_data_that_is_what_it_must_be_is_no_finding() -> None:
    assert findings(healthy(), "data-contract-broken") == []


def test_each_broken_contract_is_a_finding_of_its_own_in_stable_order() -> None:
    quorum = breached(breached(healthy(), "secrets-are-blanked", grave=True), "every-record-decodes", rows=3)

    assert told(quorum) == [
        "warning data-contract-broken: every-record-decodes",
        "critical data-contract-broken: secrets-are-blanked",
    ]
    assert told(quorum) == told(
        breached(breached(healthy(), "every-record-decodes"), "secrets-are-blanked", grave=True)
    )


def test_it_stands_for_half_an_hour_after_it_was_last_found() -> None:
    assert findings(breached(healthy(), "offsets-ascend", ago_ms=30 * MINUTE), "data-contract-broken") != []
    assert findings(breached(healthy(), "offsets-ascend", ago_ms=30 * MINUTE + 1), "data-contract-broken") == []


def test_it_tells_how_many_rows_and_one_of_them() -> None:
    (finding,) = findings(breached(healthy(), "every-record-decodes", rows=3), "data-contract-broken")

    assert finding.severity is Severity.WARNING
    assert "3 rows break it; offset 180: record type 99" in finding.summary
    assert (finding.evidence["rows"], finding.evidence["journal_row"]) == (3, 1_042)
    assert any("kraftwatch quarantine list" in step for step in finding.remedy)
