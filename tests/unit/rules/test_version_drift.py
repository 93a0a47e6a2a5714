"""version-drift: supported levels against finalized levels, and nodes that were not upgraded."""

from dataclasses import replace

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import NodeId
from rules.model.membership import FeatureRange
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    DAY_MS,
    finding_lines,
    findings,
    healthy,
    in_transaction,
    made_dynamic,
    registered,
    static,
    supporting,
    unknown_records,
    upgraded,
    with_broker,
    with_controller,
    without_metadata_version,
)

HOUR_MS = 3_600_000
RULE = "version-drift"


@pytest.mark.parametrize(("ago_ms", "fires"), [(HOUR_MS, False), (4 * HOUR_MS - 1_000, False), (4 * HOUR_MS, True)])
def test_mixed_versions_fire_after_the_hold_by_the_timestamps_in_the_log(ago_ms: int, fires: bool) -> None:
    quorum = upgraded(healthy(), 30, 1, 2, ago_ms=ago_ms)
    thresholds = thresholds_for({})
    _, alerts = advance(TrackedConditions(), evaluate(quorum, thresholds), quorum, thresholds)
    assert [(each.rule, each.subject) for each in alerts] == [(RULE, "nodes")] * fires


def test_age_of_mixed_versions_begins_with_the_later_of_the_two_versions() -> None:
    """An old node that joins an upgraded cluster makes it mixed when it joins, not when the others were upgraded."""
    joined = upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 27, 101, ago_ms=HOUR_MS)
    (finding,) = findings(joined, RULE)
    assert finding.condition_age_ms == HOUR_MS
    assert "broker 101 supports metadata.version up to 27, 4 other nodes up to 30" in finding.summary


def test_outdated_node_that_does_not_run_gets_its_own_remedy() -> None:
    quorum = upgraded(registered(with_broker(healthy(), 103, fenced=True), 4), 30, 1, 2, 3, 101)
    (finding,) = findings(quorum, RULE)
    steps = [step for step in finding.remedy if "server.log" not in step]
    assert steps[:6] == [
        "# Upgrade broker 102 to the version of the others, one after the other",
        "# Start controller 4 and broker 103 (not running) with the version of the others",
        "# If one of them no longer exists, remove its registration with the following steps",
        "# Of a broker, after its partitions have moved to others",
        "kafka-cluster.sh unregister --id 103 --bootstrap-controller c3.test:9093",
        "# Kafka removes a controller's registration only from metadata.version 33 (Kafka 4.4) on, which not every "
        "running node supports: controller 1, controller 2, controller 3, broker 101 and 1 more",
    ]
    assert finding.evidence["outdated_and_not_running"] == ["controller 4", "broker 103"]


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        # The week begins when the last node registered the version.
        (upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 30, 101, ago_ms=DAY_MS), []),
        # One outdated node: mixed versions are reported instead.
        (upgraded(upgraded(healthy(), 30, ago_ms=9 * DAY_MS), 29, 101), [f"warning {RULE}: nodes"]),
        (upgraded(static(healthy()), 27, ago_ms=7 * DAY_MS), [f"info {RULE}: kraft.version"]),
        # metadata.version 26 is Kafka 4.1, the first that upgrades to it.
        (
            replace(upgraded(static(healthy()), 26, ago_ms=7 * DAY_MS), metadata_version=26, features={}),
            [f"info {RULE}: kraft.version"],
        ),
        # Kafka 4.0 supports kraft.version 1 and cannot upgrade to it.
        (replace(upgraded(static(healthy()), 25, ago_ms=7 * DAY_MS), metadata_version=25, features={}), []),
        (upgraded(healthy(), 25, 101), [f"warning {RULE}: broker 101", f"warning {RULE}: nodes"]),
    ],
)
def test_findings_by_supported_and_finalized_levels(quorum: Quorum, expected: list[str]) -> None:
    assert [each for each in finding_lines(quorum) if RULE in each] == expected


@pytest.mark.parametrize(
    ("in_force", "highest", "back"),
    [
        (27, 29, "kafka-features.sh downgrade can set level 27 again"),
        (23, 29, "kafka-features.sh downgrade can set level 23 again"),
        (22, 29, "there is no safe way back"),
        (29, 30, "there is no safe way back"),
        (30, 31, "kafka-features.sh downgrade can set level 30 again"),
        (31, 33, "there is no safe way back"),
        # No Kafka with this level is released.
        (33, 34, "there is no safe way back"),
    ],
)
def test_remedy_says_whether_the_level_can_be_lowered_again(in_force: int, highest: int, back: str) -> None:
    """Kafka refuses a downgrade below a level at which records changed (MetadataVersion.checkIfMetadataChanged)."""
    quorum = replace(upgraded(healthy(), highest, ago_ms=8 * DAY_MS), metadata_version=in_force)
    (finding,) = findings(quorum, RULE)
    assert finding.condition_age_ms == 8 * DAY_MS
    assert f"# When the version has proven stable, finalize it: {back}" in finding.remedy


@pytest.mark.parametrize("node", [2, 101])
def test_nodes_of_one_role_that_differ_in_another_feature_are_mixed(node: int) -> None:
    """All support the same metadata.version; one of them supports another feature as well."""
    quorum = healthy()
    features = (*supporting(27), FeatureRange(name="share.version", lowest=0, highest=1))
    if node in quorum.brokers:
        one = replace(quorum.brokers[NodeId(node)], features=features)
        odd = replace(quorum, brokers={**quorum.brokers, NodeId(node): one})
    else:
        odd = with_controller(quorum, replace(quorum.controllers[NodeId(node)], features=features))
    (finding,) = findings(odd, RULE)
    assert finding.summary.endswith(": all support the same metadata.version and differ in other features.")
    assert finding.remedy[0] == (
        "# Give all nodes the same version and the same unstable.feature.versions.enable, one after the other"
    )
    assert finding.starts == (1, 2, 3, 101, 102)


def test_node_without_features_supports_nothing() -> None:
    quorum = healthy()
    none = replace(quorum.brokers[NodeId(101)], features=())
    mixed = findings(replace(quorum, brokers={**quorum.brokers, NodeId(101): none}), RULE)[-1]
    groups = mixed.evidence["nodes_by_supported_levels"]
    assert isinstance(groups, dict)
    assert groups["nothing"] == ["broker 101"]


@pytest.mark.parametrize(
    ("quorum", "fires"),
    [
        (made_dynamic(healthy(), ago_ms=1_000), True),
        (made_dynamic(healthy(), ago_ms=HOUR_MS), True),
        (made_dynamic(healthy(), ago_ms=HOUR_MS + 1), False),
        # It was upgraded alone, on purpose.
        (made_dynamic(healthy(), ago_ms=1_000, metadata_version=None), False),
    ],
)
def test_release_upgrade_that_made_the_quorum_dynamic_fires_at_once_for_an_hour(quorum: Quorum, fires: bool) -> None:
    thresholds = thresholds_for({})
    _, alerts = advance(TrackedConditions(), evaluate(quorum, thresholds), quorum, thresholds)
    assert [(each.rule, each.subject) for each in alerts] == [(RULE, "release upgrade")] * fires
    assert all("kraft.version went from 0 to 1 by a release upgrade" in each.summary for each in alerts)


MISSING = without_metadata_version(healthy())


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (MISSING, ["warning version-drift: metadata.version"]),
        (replace(MISSING, controllers={}, brokers={}), ["warning version-drift: metadata.version"]),
        # It may be in what was not read, or could not be applied.
        (replace(MISSING, log_complete=False), []),
        (unknown_records(MISSING, ("FeatureLevelRecord version 9", "FeatureLevelRecord")), []),
        (in_transaction(MISSING, for_ms=1_000), []),
    ],
)
def test_a_log_that_sets_no_metadata_version(quorum: Quorum, expected: list[str]) -> None:
    assert [line for line in finding_lines(quorum) if RULE in line] == expected


def test_a_log_without_metadata_version_is_refused_by_kafka_4() -> None:
    (finding,) = findings(MISSING, RULE)
    assert "Kafka 4.0 and later refuse it (controllers 1, " not in finding.summary
    assert "Kafka 4.0 and later refuse it (controller 1, " in finding.summary
    assert finding.remedy[-1].endswith("upgrade --feature metadata.version=27")
    kafka_3 = tuple(replace(each, lowest=1) for each in supporting(18))
    old = {node: replace(one, features=kafka_3) for node, one in MISSING.controllers.items()}
    brokers = {node: replace(one, features=kafka_3) for node, one in MISSING.brokers.items()}
    (finding,) = findings(replace(MISSING, controllers=old, brokers=brokers), RULE)
    assert "the controllers work at the lowest level, 3.0-IV1" in finding.summary
