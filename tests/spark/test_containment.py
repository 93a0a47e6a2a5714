"""A fault in one cluster, on a real Spark: the query and the other cluster's alerts go on, also after a restart."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.errors import UsageError
from connectors.observations.observation import ObservationKind
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from tests.eventually import eventually
from tests.spark.pipeline_run import THRESHOLDS, PipelineRun, settings_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

BOTH = ("prod", "liar")
BROKEN = replace(
    settings_of("liar"), thresholds={rule: values for rule, values in THRESHOLDS.items() if rule != "no-leader"}
)
"""With these settings no rule can be evaluated."""


@pytest.fixture
def clusters(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineRun]:
    clusters = PipelineRun(spark, tmp_path, BOTH)
    yield clusters
    clusters.close()


def lie(clusters: PipelineRun) -> None:
    """Writes a row whose offset overflows the column of Arrow."""
    end = 2**63 - 1
    clusters.write(clusters.row(ObservationKind.RECORDS, bytes(61), "liar", base_offset=end, last_offset=end))


def test_the_other_cluster_alerts_and_a_restart_goes_on(clusters: PipelineRun) -> None:
    clusters.settings["liar"] = BROKEN
    clusters.start()
    clusters.have_a_leader(*BOTH, times=4)
    lie(clusters)
    clusters.lose_the_leader(*BOTH, times=8)

    def fired() -> None:
        assert clusters.transitions("prod") == [("no-leader", "firing")]
        assert ("data-contract-broken", "firing") in clusters.transitions("liar")
        # Within its batch a row is in quarantine after the alerts are sent.
        quarantined = quarantine_of(job_database(clusters.checkpoint.folder)).items()
        assert {fields["cluster"] for fields in quarantined.values()} == {"liar"}

    eventually(fired, within_s=90)

    clusters.stop()
    clusters.settings["liar"] = settings_of("liar")
    clusters.start()
    clusters.have_a_leader(*BOTH, times=14)

    def resolved() -> None:
        assert ("no-leader", "resolved") in clusters.transitions("prod")
        newest = clusters.store.newest("liar")
        assert newest is not None
        assert newest.status.leader_id == 1, "the cluster has recovered"

    eventually(resolved, within_s=90)


def test_state_of_another_cluster_is_refused_in_one_sentence(clusters: PipelineRun) -> None:
    clusters.start()
    clusters.batch(clusters.have_a_leader)
    clusters.stop()

    clusters.settings["prod"] = replace(clusters.settings["prod"], cluster_id="another-id")
    clusters.start()
    clusters.have_a_leader()

    with pytest.raises(UsageError) as refused:
        clusters.wait_until_committed()
    assert "id-of-prod" in str(refused.value)
    assert "\n" not in str(refused.value)
