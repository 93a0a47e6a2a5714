"""unknown-records: one finding about records that no rule needs, and one for each record that a rule needs."""

from dataclasses import replace

from connectors.metadata.record_to_event import CONTROL_CONVERTERS, CONVERTERS
from rules.checks.unknown_records import FACTS
from rules.finding import Severity
from rules.model.identifiers import Offset
from rules.model.monitoring import UnknownRecordType
from tests.unit.rules.situation import findings, healthy, unknown_records

RULE = "unknown-records"


def test_every_record_that_a_rule_depends_on_has_its_facts() -> None:
    assert {*FACTS} == {*CONVERTERS, *CONTROL_CONVERTERS, "SnapshotHeaderRecord", "SnapshotFooterRecord"}


def test_types_that_no_rule_needs_are_one_information() -> None:
    assert findings(healthy(), RULE) == []

    quorum = unknown_records(healthy(), *((f"record type {501 + each} version 0", None) for each in range(34)))
    (finding,) = findings(quorum, RULE)

    assert (finding.subject, finding.severity) == ("records", Severity.INFO)
    assert "record type 501 version 0" in finding.summary
    assert "and 26 more; 68 records so far" in finding.summary
    assert finding.evidence["records"] == {f"record type {501 + each} version 0": 2 for each in range(34)}


def test_an_unknown_version_of_a_known_record_that_no_rule_needs_is_information() -> None:
    (finding,) = findings(unknown_records(healthy(), ("ConfigRecord version 1", "ConfigRecord")), RULE)

    assert (finding.subject, finding.severity) == ("records", Severity.INFO)


def test_an_unknown_version_of_a_needed_record_is_a_warning_that_names_the_facts() -> None:
    quorum = unknown_records(healthy(), ("VotersRecord version 1", "VotersRecord"), ("record type 501 version 0", None))

    warning, information = findings(quorum, RULE)

    assert (warning.subject, warning.severity) == ("VotersRecord", Severity.WARNING)
    assert warning.summary == (
        "This kraftwatch does not know VotersRecord version 1. "
        "Not known from offset 180 on: voters and their endpoints."
    )
    assert information.subject == "records"


def test_versions_of_one_record_are_one_warning() -> None:
    known = UnknownRecordType(name="TopicRecord version 1", kafka_class="TopicRecord", count=1, first_offset=Offset(7))
    other = replace(known, name="TopicRecord version 2", first_offset=Offset(5))

    (finding,) = findings(replace(healthy(), unknown_records=(known, other)), RULE)

    assert finding.summary == (
        "This kraftwatch does not know TopicRecord version 1 and TopicRecord version 2. "
        "Not known from offset 5 on: topics."
    )
