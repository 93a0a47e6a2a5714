"""The values of `status --json`, all of each situation in `values`; what a person reads is in `tables`."""

from pathlib import Path
from typing import Any

import pytest

from rules.formatting import iso
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from tests.golden_file import assert_golden
from tests.situation.commands import described, situation
from tests.situation.situation import NOW
from tests.unit.streaming.status.status_situations import IN_THE_MIDDLE_OF_EVERYTHING, SITUATIONS
from tests.unit.streaming.status.statuses import partitions, replication, status, values_text

VALUES = Path(__file__).parent / "values"
"""The values of each situation: `make goldens` rewrites them."""
OF_RULES = ("findings", "unknown", "not_applicable")


def rows(of: list[dict[str, Any]], names: str) -> list[list[Any]]:
    """Returns the values with these names of each object of a list."""
    return [[each[name] for name in names.split()] for each in of]


@pytest.mark.parametrize("name", SITUATIONS)
def test_values_of_a_status(name: str) -> None:
    values = {field: value for field, value in status(SITUATIONS[name]).items() if field not in OF_RULES}

    assert_golden(VALUES / f"{name}.txt", values_text(values))


def test_findings_are_listed_most_severe_first_with_their_hold() -> None:
    found = status(SITUATIONS["in-the-middle-of-everything"])["findings"]

    assert rows(found, "severity rule subject hold_s") == [
        ["critical", "broker-fenced", "broker 101", 300.0],
        ["critical", "partitions-offline", "broker 103", 60.0],
        ["critical", "unclean-election", "topic orders", 0.0],
        ["warning", "broker-fenced", "broker 103", 300.0],
        ["warning", "certificate-expiring", "certificates", 60.0],
        ["warning", "partition-stuck-recovering", "topic orders", 60.0],
        ["warning", "partition-stuck-recovering", "topic with id id-of-other", 60.0],
        ["warning", "voter-change-stuck", "quorum", 60.0],
        ["warning", "voter-disk-replaced", "controller 2", 60.0],
        ["info", "forced-reconfiguration", "voter set at offset 6400", 0.0],
        ["info", "ghost-registration", "controller 9", 600.0],
        ["info", "observer-could-be-voter", "observer 6-dir6", 300.0],
    ]
    assert found[0]["summary"].startswith("Broker 101 is fenced:")


def test_unknown_results_name_the_rule_the_subject_and_why() -> None:
    assert rows(status(SITUATIONS["in-the-middle-of-everything"])["unknown"], "rule subject why") == [
        ["failure-tolerance", "quorum", "only voters whose disk was replaced are missing: 2-dir2"],
        ["quorum-shape", None, "inhibited by voter-disk-replaced"],
        ["voter-lagging", "voter 2", "its log directory was replaced: 2-new fetches instead"],
    ]


def test_newest_timestamp_is_that_of_the_newest_record_also_while_nothing_is_appended() -> None:
    assert status(situation("silent 31s"))["newest_timestamp"] == iso(Millis(NOW - 31_000))


def test_failure_without_an_address_has_no_endpoint() -> None:
    made = described(())
    nowhere = FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.UNRESOLVABLE, detail="")
    made.fail(nowhere, since_ms=NOW, until_ms=NOW)

    assert status(made.quorum)["failing"] == [{"source": "log", "endpoint": None, "reason": "unresolvable"}]


@pytest.mark.parametrize("name", SITUATIONS)
def test_replication_and_partitions_have_the_values_of_the_whole_status(name: str) -> None:
    whole = status(SITUATIONS[name])
    head = ["cluster", "cluster_id", "source", "age_ms", "observed_at", "recorded_at", "missing"]

    for of_part, own in (
        (replication(SITUATIONS[name]), ["leader_id", "leader_epoch", "described_at", "replicas"]),
        (partitions(SITUATIONS[name]), ["recovering"]),
    ):
        assert [*of_part] == [*head, *own]
        assert of_part.items() <= whole.items()


def test_replication_has_the_time_of_its_poll() -> None:
    unpolled = situation(*IN_THE_MIDDLE_OF_EVERYTHING, "unpolled always")

    assert replication(SITUATIONS["in-the-middle-of-everything"])["described_at"] == "2026-09-21T14:13:19.000Z"
    assert replication(unpolled)["described_at"] is None


def test_a_lost_directory_that_is_still_listed_could_not_be_a_voter() -> None:
    """The disk of controller 4 was replaced: the leader lists the former directory for five minutes more."""
    both = situation("observer 4-lost stopped 60s", "observer 4 since 50s")
    alone = situation("observer 4-lost stopped 60s")

    assert rows(status(both)["could_be_voters"], "id directory_id") == [[4, "dir4"]]
    assert rows(status(alone)["could_be_voters"], "id directory_id") == [[4, "lost"]], "it may come back"
