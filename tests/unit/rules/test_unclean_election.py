"""unclean-election: fires for a while, one alert per topic, next to partition-stuck-recovering."""

from dataclasses import replace

import pytest

from rules.finding import Severity
from rules.model.identifiers import Millis, NodeId, TopicId
from tests.unit.rules.situation import (
    finding_lines,
    findings,
    healthy,
    recovering,
    unclean,
    with_past,
)

RULE = "unclean-election"
FIRES = [f"critical {RULE}: topic orders"]


@pytest.mark.parametrize(("ago_ms", "expected"), [(600_000, FIRES), (600_001, [])])
def test_election_during_a_gap_fires_for_ten_minutes_after_the_log_is_read_again(
    ago_ms: int, expected: list[str]
) -> None:
    quorum = unclean(healthy(), 0, ago_ms=7_200_000)
    (one,) = quorum.history.unclean
    read_ms = Millis(one.last_timestamp_ms + 7_200_000 - ago_ms)
    read = replace(one, read_timestamp_ms=read_ms)
    assert finding_lines(with_past(quorum, unclean=(read,))) == expected


def test_partitions_of_another_topic_that_recover_are_not_counted() -> None:
    other = recovering(unclean(healthy(), 0), 3, topic="payments", topic_id=TopicId("another"))
    assert findings(other, RULE)[0].evidence["partitions_recovering_now"] == 0


def test_topic_is_reported_for_ten_minutes_after_the_newest_of_its_elections() -> None:
    quorum = unclean(healthy(), 0, 1)
    (one,) = quorum.history.unclean
    long_since = replace(one, first_timestamp_ms=Millis(one.last_timestamp_ms - 3_000_000))
    assert finding_lines(with_past(quorum, unclean=(long_since,))) == FIRES


def test_one_election_of_another_replica_among_those_of_last_leaders_is_critical() -> None:
    quorum = unclean(healthy(), 0, 1)
    (one,) = quorum.history.unclean
    mixed = replace(one, last_leaders=1, most_replicas=3, leaders=(NodeId(102), NodeId(103)))
    (finding,) = findings(with_past(quorum, unclean=(mixed,)), RULE)

    assert finding.severity is Severity.CRITICAL
    assert "Brokers 102 and 103 were elected; in sync before and not elected: 101." in finding.summary


@pytest.mark.parametrize(("before_ms", "severity"), [(600_000, Severity.CRITICAL), (700_000, Severity.WARNING)])
def test_an_election_of_the_last_leader_is_as_severe_as_the_one_before_only_while_that_still_fires(
    before_ms: int, severity: Severity
) -> None:
    earlier = unclean(healthy(), 0, replicas=3, ago_ms=before_ms)
    (finding,) = findings(unclean(earlier, 0, replicas=3, last_leader=True), RULE)
    assert finding.severity is severity
