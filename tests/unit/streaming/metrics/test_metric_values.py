"""The values of /metrics of four quorums: one for each cluster, one for each replica, counts by rule."""

from dataclasses import replace
from pathlib import Path

import pytest

from rules.model.quorum import Quorum
from tests.unit.rules.situation import NOW, key
from tests.unit.streaming.metrics.exposition import MetricsFixture, Samples, names
from tests.unit.streaming.status.status_situations import SITUATIONS, five_voters, in_the_middle_of_everything

NEW_DISK = key(2, "newDirOf2")
OF_EACH_CLUSTER = {"cluster_configured": 1, "status_age_seconds": 0, "quarantined_total": 0}


def samples_of(tmp_path: Path, *quorums: Quorum) -> list[Samples]:
    """Returns the samples of each of some clusters of one job, without the label of the cluster."""
    names = [f"cluster-{number}" for number, _ in enumerate(quorums)]
    named = (replace(quorum, cluster=name) for name, quorum in zip(names, quorums, strict=True))
    found = MetricsFixture(tmp_path, names).batch(*named).samples()
    return [
        {
            (name, tuple(label for label in labels if label[0] != "cluster")): value
            for (name, labels), value in found.items()
            if ("cluster", cluster) in labels
        }
        for cluster in names
    ]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[Samples]:
    """The samples of two clusters of one job."""
    return samples_of(tmp_path_factory.mktemp("metrics"), in_the_middle_of_everything(), five_voters())


@pytest.fixture(scope="module")
def found(both: list[Samples]) -> Samples:
    """The samples of a cluster in the middle of everything."""
    return both[0]


def numbers(of: Samples) -> dict[str, float]:
    """Returns the metrics without a label."""
    return {name: value for (name, labels), value in of.items() if not labels}


def labelled(of: Samples, name: str, *labels: str) -> dict[tuple[str | None, ...], float]:
    """Returns the samples of a metric by the values of some labels; None for a label that is absent."""
    return {tuple(dict(has).get(label) for label in labels): value for (each, has), value in of.items() if each == name}


def by_node(of: Samples, name: str) -> dict[str, float]:
    """Returns the samples of a metric by `NODE-DIRECTORY`, or by `NODE` without a directory."""
    return {
        "-".join(filter(None, node)): value for node, value in labelled(of, name, "node_id", "directory_id").items()
    }


def test_each_number_of_a_quorum_is_a_metric(found: Samples) -> None:
    assert numbers(found) == {
        **OF_EACH_CLUSTER,
        "staleness_seconds": 0.1,
        "log_lag_seconds": 0.3,
        "log_lag_records": 0,
        "current_leader": 3,
        "current_epoch": 8,
        "leaderless": 0,
        "high_watermark": 9_950,
        "electable": 1,
        "number_of_voters": 3,
        "votes_needed": 2,
        "voters_fetching": 2,
        "number_of_offline_voters": 1,
        "failure_tolerance": 0,
        "failure_tolerance_by_size": 1,
        "number_of_observers": 4,
        "number_of_possible_voters": 2,
        "pending_add_voter": 1,
        "pending_remove_voter": 0,
        "uncommitted_voter_change": 1,
        "ignored_static_voters": 1,
        "kraft_version": 1,
        "metadata_version": 27,
        "recovering_partitions": 3,
        "registered_brokers": 2,
        "fenced_brokers": 1,
        "commit_latency_avg_seconds": 0,
        "commit_latency_max_seconds": 0,
    }


def test_clusters_of_one_job_have_their_own_values(both: list[Samples]) -> None:
    first, second = map(numbers, both)

    assert {name: value for name, value in second.items() if first[name] != value} == {
        "current_leader": 5,
        "current_epoch": 7,
        "high_watermark": 10_000,
        "number_of_voters": 5,
        "votes_needed": 3,
        "voters_fetching": 4,
        "failure_tolerance": 1,
        "failure_tolerance_by_size": 2,
        "number_of_observers": 2,
        "number_of_possible_voters": 0,
        "pending_add_voter": 0,
        "uncommitted_voter_change": 0,
        "recovering_partitions": 0,
        "fenced_brokers": 0,
        "commit_latency_avg_seconds": 120,
        "commit_latency_max_seconds": 120,
    }


def test_each_replica_has_its_progress(found: Samples) -> None:
    lagging, observer = str(key(2)), str(key(6))
    replicas = [*map(str, (key(1), key(2), key(3), key(4), NEW_DISK, key(6), key(101), key(102)))]

    assert by_node(found, "log_end_offset") == {**dict.fromkeys(replicas, 10_000), lagging: 9_100}
    polled_before = map(str, (key(1), key(3), key(6), NEW_DISK))
    assert by_node(found, "log_end_epoch") == {**dict.fromkeys(polled_before, 7), lagging: 5}
    assert by_node(found, "replica_lag_records") == {**dict.fromkeys(replicas, 0), lagging: 900}
    assert by_node(found, "replica_lag_seconds") == {**dict.fromkeys(replicas, 0), lagging: 120, observer: 0.9}
    assert by_node(found, "replica_fetch_age_seconds") == {**dict.fromkeys(replicas, 0), lagging: 120, observer: 0.4}


def test_each_replica_has_its_role(found: Samples) -> None:
    followers, observers = (key(1), key(2), key(4)), (NEW_DISK, key(6), key(101), key(102))

    assert set(labelled(found, "current_state", "node_id", "directory_id", "state")) == {
        (str(one.id), one.directory_id, state)
        for state, replicas in (("leader", (key(3),)), ("follower", followers), ("observer", observers))
        for one in replicas
    }
    assert set(labelled(found, "log_end_offset", "node_id", "directory_id", "role")) == {
        (str(one.id), one.directory_id, role)
        for role, replicas in (("voter", (key(3), *followers)), ("observer", observers))
        for one in replicas
    }
    assert by_node(found, "is_observer") == {
        **dict.fromkeys(map(str, (key(3), *followers)), 0),
        **dict.fromkeys(map(str, (NEW_DISK, key(6))), 1),
    }


def test_each_controller_has_its_start_its_endpoint_and_its_certificate(found: Samples) -> None:
    now_s, day_s = NOW / 1_000, 86_400

    assert by_node(found, "boot_timestamp_seconds") == dict.fromkeys("123469", now_s - 80_000)
    assert by_node(found, "voter_endpoint_ok") == dict.fromkeys(map(str, (key(1), key(2), key(3))), 1)
    assert by_node(found, "certificate_expiration_timestamp_seconds") == {
        "1": now_s + 9.5 * day_s,
        **dict.fromkeys("23", now_s + 300 * day_s),
    }


def test_stale_endpoint_is_0_and_an_unknown_one_is_absent(both: list[Samples], tmp_path: Path) -> None:
    (leaderless,) = samples_of(tmp_path, SITUATIONS["leaderless"])

    assert by_node(both[1], "voter_endpoint_ok") == {
        **dict.fromkeys(map(str, (key(1), key(2), key(5))), 1),
        **dict.fromkeys(map(str, (key(3), key(4))), 0),
    }
    assert by_node(leaderless, "voter_endpoint_ok") == {str(key(2)): 1}, "1 and 3 refuse connections"


def test_findings_and_unknown_results_are_counted_by_rule(both: list[Samples]) -> None:
    first, second = (labelled(each, "findings", "severity", "rule") for each in both)

    assert first == dict.fromkeys(
        [
            ("critical", "broker-fenced"),
            ("critical", "partition-stuck-recovering"),
            ("critical", "unclean-election"),
            ("warning", "certificate-expiring"),
            ("warning", "partition-stuck-recovering"),
            ("warning", "voter-change-stuck"),
            ("warning", "voter-disk-replaced"),
            ("info", "forced-reconfiguration"),
            ("info", "ghost-registration"),
            ("info", "observer-could-be-voter"),
        ],
        1,
    )
    assert second == {("warning", "failure-tolerance"): 1, ("warning", "stale-voter-endpoint"): 2}
    assert labelled(both[0], "unknown", "rule") == dict.fromkeys(
        [("failure-tolerance",), ("quorum-shape",), ("voter-lagging",)], 1
    )


def test_failing_observations_are_counted_by_source_and_reason(tmp_path: Path) -> None:
    (found,) = samples_of(tmp_path, SITUATIONS["leaderless"])

    assert labelled(found, "gather_failing", "source", "reason") == {("log", "no-leader"): 1}


def test_quorum_without_a_leader_has_the_metrics_of_its_log_alone(tmp_path: Path) -> None:
    (found,) = samples_of(tmp_path, SITUATIONS["leaderless"])

    assert numbers(found) == {
        **OF_EACH_CLUSTER,
        "staleness_seconds": 14,
        "log_lag_seconds": 0.3,
        "log_lag_records": 0,
        "current_epoch": 7,
        "leaderless": 1,
        "high_watermark": 10_000,
        "electable": 0,
        "number_of_voters": 3,
        "votes_needed": 2,
        "failure_tolerance_by_size": 1,
        "ignored_static_voters": 1,
        "kraft_version": 1,
        "metadata_version": 27,
        "recovering_partitions": 0,
        "registered_brokers": 2,
        "fenced_brokers": 0,
    }


def test_static_quorum_has_no_pending_change_and_before_kafka_3_9_no_endpoints(tmp_path: Path) -> None:
    older, newer = SITUATIONS["static-before-kafka-3.9"], SITUATIONS["static"]
    static, static_with_endpoints, dynamic = samples_of(tmp_path, older, newer, in_the_middle_of_everything())

    assert {name: numbers(static)[name] for name in ("ignored_static_voters", "kraft_version", "number_of_voters")} == {
        "ignored_static_voters": 0,
        "kraft_version": 0,
        "number_of_voters": 3,
    }
    of_records = {
        *("pending_add_voter", "pending_remove_voter", "uncommitted_voter_change"),
        *("voter_endpoint_ok", "electable"),
    }
    assert (of_records & names(dynamic), of_records & names(static)) == (of_records, set())
    assert of_records & names(static_with_endpoints) == {"voter_endpoint_ok", "electable"}


def test_cluster_of_which_nothing_was_observed_has_only_a_finding_and_unknown_rules(tmp_path: Path) -> None:
    (found,) = samples_of(tmp_path, replace(SITUATIONS["not-observed"], now_ms=NOW))

    assert names(found) == {*OF_EACH_CLUSTER, "alerts_firing", "findings", "unknown"}
    assert labelled(found, "findings", "severity", "rule") == {("critical", "monitor-blind"): 1}
