"""The values of /metrics of each situation, in `values`: of each cluster, of each replica, findings by rule."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rules.model.quorum import Quorum
from tests.golden_file import assert_golden
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.streaming.metrics.exposition import MetricsFixture, Samples, names, reader
from tests.unit.streaming.status.status_situations import NOTHING_ANSWERED, SITUATIONS

VALUES = Path(__file__).parent / "values"
"""The samples of each situation: `make goldens` rewrites them."""
QUORUMS: Mapping[str, Quorum] = {**SITUATIONS, "not-observed": situation(*NOTHING_ANSWERED)}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Samples]:
    """The samples of each situation without the label of its cluster: they are the clusters of one job."""
    folder = tmp_path_factory.mktemp("metrics")
    named = (replace(quorum, cluster=name) for name, quorum in QUORUMS.items())
    samples = MetricsFixture(folder, [*QUORUMS]).batch(*named).samples()
    return {
        cluster: {
            (name, tuple(label for label in labels if label[0] != "cluster")): value
            for (name, labels), value in samples.items()
            if ("cluster", cluster) in labels
        }
        for cluster in QUORUMS
    }


def lines(of: Samples) -> Iterator[str]:
    """Yields a line for each sample; a time as its distance to NOW."""
    for (name, labels), value in of.items():
        shown = f"NOW{value - NOW / 1_000:+.15g}" if value > NOW / 2_000 else f"{value:.15g}"
        yield " ".join([name, *(f"{label}={text}" for label, text in labels), shown])


@pytest.mark.parametrize("name", QUORUMS)
def test_metrics_of_each_cluster_of_a_job(name: str, found: Mapping[str, Samples]) -> None:
    samples = {sample: value for sample, value in found[name].items() if sample[0] != "unknown"}

    assert_golden(VALUES / f"{name}.txt", "\n".join(lines(samples)))


def test_stale_endpoint_is_0_and_an_unknown_one_is_absent(found: Mapping[str, Samples]) -> None:
    def values(name: str) -> list[float | None]:
        read = reader(found[name])
        return [read("voter_endpoint_ok", node_id=str(node), directory_id=f"dir{node}") for node in range(1, 6)]

    assert values("five-voters") == [1, 1, 0, 0, 1]
    assert values("leaderless") == [None, 1, None, None, None], "1 and 3 refuse connections"


def test_unknown_results_are_counted_by_rule(found: Mapping[str, Samples]) -> None:
    of_rules = {sample: value for sample, value in found["in-the-middle-of-everything"].items() if "unknown" in sample}

    assert of_rules == {
        ("unknown", (("rule", rule),)): 1 for rule in ("failure-tolerance", "quorum-shape", "voter-lagging")
    }


def test_static_quorum_has_no_pending_change_and_before_kafka_3_9_no_endpoints(found: Mapping[str, Samples]) -> None:
    of_records = {
        *("pending_add_voter", "pending_remove_voter", "uncommitted_voter_change"),
        *("voter_endpoint_ok", "electable"),
    }

    assert of_records & names(found["in-the-middle-of-everything"]) == of_records
    assert of_records & names(found["static"]) == {"voter_endpoint_ok", "electable"}
    assert of_records & names(found["static-before-kafka-3.9"]) == set()
