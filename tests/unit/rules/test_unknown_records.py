"""unknown-records: what the rules know from each record. `cases/unknown-records.txt` has the rule's results."""

from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS
from rules.checks.unknown_records import FACTS


def test_every_record_that_a_rule_depends_on_has_its_facts() -> None:
    assert {*FACTS} == {*CONVERTERS, *CONTROL_CONVERTERS, "SnapshotHeaderRecord", "SnapshotFooterRecord"}
