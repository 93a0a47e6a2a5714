"""The pipeline on a real Spark: observations from a journal become alerts in a file, each once and in order."""

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
from tests.spark.pipeline_run import START_MS, PipelineRun

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

FIRING, RESOLVED = ("no-leader", "firing"), ("no-leader", "resolved")


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineRun]:
    pipeline = PipelineRun(spark, tmp_path)
    yield pipeline
    pipeline.close()


def page_history_is(pipeline: PipelineRun, *expected: tuple[str, str]) -> None:
    """Checks the alerts of the page; it gets them after the sinks."""
    delivery = pipeline.store.delivery
    assert delivery is not None
    assert [(alert.rule, alert.state.value) for alert in delivery.history] == list(expected)


def test_no_leader_fires_after_hold_and_resolves_after_clear(pipeline: PipelineRun) -> None:
    pipeline.start()
    pipeline.lose_the_leader(times=3)
    # The processor requests a poll for the end of the hold.
    eventually(lambda: ("prod", START_MS + 5_000) in pipeline.requested_polls, within_s=60)
    assert pipeline.alerts() == []
    pipeline.lose_the_leader(times=5)
    pipeline.wait_for_transitions(FIRING)

    pipeline.have_a_leader(times=14)
    pipeline.wait_for_transitions(FIRING, RESOLVED)

    newest = pipeline.store.newest("prod")
    assert newest is not None
    assert (newest.status.leader_id, newest.status.source) == (1, "live")
    eventually(lambda: page_history_is(pipeline, FIRING, RESOLVED), within_s=60)

    firing, resolved = pipeline.alerts()
    assert firing["severity"] == "critical"
    assert firing["cluster_id"] == "id-of-prod"
    assert firing["fingerprint"] == resolved["fingerprint"]
    assert firing["started_at"] == resolved["started_at"] == "2027-01-15T08:00:00.000Z"


def test_a_row_that_does_not_decode_is_in_quarantine_and_the_query_goes_on(pipeline: PipelineRun) -> None:
    end = 2**63 - 1
    pipeline.start()
    pipeline.batch(
        lambda: pipeline.write(
            pipeline.row(ObservationKind.RECORDS, bytes(61), base_offset=end, last_offset=end),
        )
    )
    pipeline.lose_the_leader(times=8)

    pipeline.wait_for_transitions(("data-contract-broken", "firing"), FIRING)
    quarantined = quarantine_of(job_database(pipeline.checkpoint.folder)).items()
    assert {fields["cluster"] for fields in quarantined.values()} == {"prod"}


def test_state_of_another_cluster_is_refused_in_one_sentence(pipeline: PipelineRun) -> None:
    pipeline.start()
    pipeline.batch(pipeline.have_a_leader)
    pipeline.stop()

    pipeline.settings["prod"] = replace(pipeline.settings["prod"], cluster_id="another-id")
    pipeline.start()
    pipeline.have_a_leader()

    with pytest.raises(UsageError) as refused:
        pipeline.wait_until_committed()
    assert "id-of-prod" in str(refused.value)
    assert "\n" not in str(refused.value)
