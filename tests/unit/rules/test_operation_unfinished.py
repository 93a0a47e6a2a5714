"""operation-unfinished: states that Kafka means to be temporary, and their limits."""

from dataclasses import replace

from rules.model.history import ZkMigrationState
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    finding_lines,
    findings,
    healthy,
    migrating,
    reassigned,
    shutting_down,
    with_broker,
)

ID = "operation-unfinished"
HOUR, DAY = 3_600_000, 86_400_000
FENCED = with_broker(healthy(), 101, fenced=True)


def subjects(quorum: Quorum) -> list[str]:
    return [one.subject for one in findings(quorum, ID)]


def test_a_reassignment_has_a_day() -> None:
    assert not subjects(reassigned(healthy(), adding=(101,), ago_ms=DAY - 1))
    (finding,) = findings(reassigned(healthy(), adding=(101,), ago_ms=DAY), ID)
    assert finding.summary.endswith("New replicas are on broker 101.")
    assert not finding.starts


def test_a_reassignment_to_a_broker_that_is_down_has_a_quarter_of_an_hour() -> None:
    assert not subjects(reassigned(FENCED, adding=(101, 102), ago_ms=HOUR // 4 - 1))
    (finding,) = findings(reassigned(FENCED, adding=(101, 102), ago_ms=HOUR // 4), ID)
    assert finding.evidence["brokers_down"] == [101]
    assert finding.starts == (101,)
    assert finding.remedy[0] == "# Start broker 101, or cancel the reassignment"


def test_a_reassignment_to_a_broker_that_is_gone_cannot_end_by_a_start() -> None:
    (finding,) = findings(reassigned(healthy(), adding=(109,), ago_ms=HOUR), ID)
    assert "Broker 109, which should copy it, is down or not registered." in finding.summary
    assert not finding.starts


def test_only_late_partitions_count_and_their_removal_alone_does_too() -> None:
    both = reassigned(reassigned(healthy(), ago_ms=2 * DAY), adding=(102,), ago_ms=HOUR, partition=1)
    (finding,) = findings(both, ID)
    assert (finding.evidence["partitions_too_late"], finding.evidence["partitions_reassigned"]) == (1, 2)


def test_a_controlled_shutdown_of_a_broker_that_still_counts_as_alive_has_ten_minutes() -> None:
    assert not subjects(shutting_down(healthy(), 101, ago_ms=599_999))
    assert finding_lines(shutting_down(healthy(), 101, ago_ms=600_000)) == ["warning operation-unfinished: broker 101"]
    left = shutting_down(healthy(), 101, ago_ms=600_000)
    gone = replace(left, brokers={node: replace(one, fenced=True) for node, one in left.brokers.items()})
    assert not subjects(gone), "broker-fenced reports it"


def test_a_migration_from_zookeeper_has_a_week_and_its_preparation_a_day() -> None:
    assert not subjects(migrating(healthy(), ZkMigrationState.PRE_MIGRATION, ago_ms=DAY - 1))
    assert subjects(migrating(healthy(), ZkMigrationState.PRE_MIGRATION, ago_ms=DAY)) == ["migration from ZooKeeper"]
    assert not subjects(migrating(healthy(), ZkMigrationState.MIGRATION, ago_ms=7 * DAY - 1))
    assert subjects(migrating(healthy(), ZkMigrationState.MIGRATION, ago_ms=7 * DAY)) == ["migration from ZooKeeper"]
    assert not subjects(migrating(healthy(), ZkMigrationState.POST_MIGRATION, ago_ms=99 * DAY))
    assert not subjects(migrating(healthy(), ZkMigrationState.NONE, ago_ms=99 * DAY))
