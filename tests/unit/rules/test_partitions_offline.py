"""partitions-offline and log-directory-offline: partitions that nobody leads, and why."""

from dataclasses import replace

from rules.model.history import Interruption
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    NOW,
    evaluation_of,
    findings,
    healthy,
    key,
    leaderless,
    offline,
    offline_directory,
    shut_down,
    unknown,
    with_broker,
    with_log_dirs,
    with_past,
)

ID = "partitions-offline"
DIRECTORY = "log-directory-offline"
FENCED = with_broker(healthy(), 101, fenced=True)


def subjects(quorum: Quorum) -> list[str]:
    return [one.subject for one in findings(quorum, ID)]


def test_no_partition_is_offline_in_a_healthy_quorum() -> None:
    assert not findings(healthy(), ID)
    assert not findings(healthy(), DIRECTORY)
    assert not findings(FENCED, ID), "a fenced broker whose partitions others lead"


def test_a_fenced_broker_with_several_sums_is_one_finding() -> None:
    two = offline(offline(FENCED, key(101, "a"), partitions=3), key(101, "b"), partitions=30, ago_ms=200_000)
    (finding,) = findings(two, ID)
    assert finding.subject == "broker 101"
    assert finding.severity == "critical"
    assert finding.condition_age_ms == 200_000
    assert finding.evidence["partitions_offline"] == 33
    assert finding.evidence["failed_nodes"] == [101]
    assert finding.hold_ms is None
    assert finding.summary.startswith("33 partitions are offline: broker 101 is fenced.")


def test_each_broker_that_must_come_back_is_a_finding() -> None:
    both = with_broker(FENCED, 102, fenced=True)
    assert subjects(offline(offline(both, key(101)), key(102))) == ["broker 101", "broker 102"]


def test_of_several_replicas_the_one_that_can_come_back_most_easily_is_named() -> None:
    partly_online = with_log_dirs(healthy(), 102, "online")
    assert subjects(offline(partly_online, key(9), key(102, "offline"))) == ["broker 102"], "9 is not registered"
    fenced = with_broker(partly_online, 103, fenced=True)
    assert subjects(offline(fenced, key(9), key(102, "offline"), key(103))) == ["broker 103"]
    assert subjects(offline(healthy(), key(8), key(9))) == ["broker 8"]


def test_the_directory_of_an_alive_broker_is_named() -> None:
    (finding,) = findings(offline(with_log_dirs(healthy(), 101, "a"), key(101, "b")), ID)
    assert finding.summary.startswith("4 partitions are offline: a log directory of broker 101 is offline.")
    assert finding.evidence["log_directories"] == [key(101, "b").directory_id]
    assert "failed_nodes" not in finding.evidence, "its process does its part"
    assert any("kafka-log-dirs.sh" in line and "--broker-list 101" in line for line in finding.remedy)


def test_the_subject_stays_when_the_broker_is_fenced_unregistered_or_back_with_the_directory_lost() -> None:
    holder = key(101, "b")
    states = (
        with_log_dirs(healthy(), 101, "a"),
        FENCED,
        replace(healthy(), brokers={}),
    )
    assert {each for state in states for each in subjects(offline(state, holder))} == {"broker 101"}


def test_where_the_log_names_no_replica_an_election_by_hand_is_needed() -> None:
    (finding,) = findings(offline(healthy()), ID)
    assert finding.subject == "partitions without an eligible replica"
    assert any("--election-type unclean" in line for line in finding.remedy)
    # Its directory is online, so only the next election is missing.
    assert subjects(offline(with_log_dirs(healthy(), 101, "a"), key(101, "a"))) == [finding.subject]


def test_a_controlled_shutdown_has_longer_also_while_the_broker_starts_again() -> None:
    (left,) = findings(offline(shut_down(healthy(), 101), key(101)), ID)
    assert left.hold_ms == 300_000
    interruption = Interruption(
        id=NodeId(101), offset=Offset(9_000), timestamp_ms=Millis(NOW - 60_000), announced=True, restarted=True
    )
    (starting,) = findings(offline(with_past(FENCED, interruptions=(interruption,)), key(101)), ID)
    assert starting.hold_ms == 300_000
    crashed = replace(interruption, announced=False)
    (crash,) = findings(offline(with_past(FENCED, interruptions=(interruption, crashed)), key(101)), ID)
    assert crash.hold_ms is None


def test_it_is_unknown_without_a_leader_of_the_quorum() -> None:
    assert (ID, None) in unknown(offline(leaderless(FENCED, 1, 2, 3), key(101)))


def test_an_offline_directory_is_one_warning_for_each_broker() -> None:
    partly_online = with_log_dirs(healthy(), 101, "a")
    (finding,) = findings(
        offline_directory(offline_directory(partly_online, 101, "b"), 101, "c", replicas=1), DIRECTORY
    )
    assert (finding.subject, finding.severity) == ("broker 101", "warning")
    assert finding.summary == (
        "2 log directories of broker 101 are offline, with 9 replicas. Log directories online: 1."
    )
    assert not [one for one in evaluation_of(partly_online).findings if one.rule in (ID, DIRECTORY)]


def test_an_offline_directory_whose_partitions_nobody_leads_is_one_alert() -> None:
    both = offline(offline_directory(with_log_dirs(healthy(), 101, "a"), 101, "b"), key(101, "b"))
    assert not findings(both, DIRECTORY)
    assert subjects(both) == ["broker 101"]
