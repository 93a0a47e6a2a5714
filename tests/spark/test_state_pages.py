"""Pages of a state, on a real Spark: a restart continues with them; without one, the state is built again."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.store.journal_reader import JournalReader
from rules.evaluate import thresholds_for
from rules.model.identifiers import TopicId
from streaming.job.spark_state import read_states, set_state_aside
from streaming.pipeline.page_files import PageFiles
from streaming.pipeline.spark.errors import StateError
from streaming.query.recording import open_journal, replay_recording
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.state_codec import stored_references
from streaming.replay.stored_topics import Topic
from tests.spark.pipeline_run import PipelineRun, settings_of
from tests.spark.read_pieces import read_piece

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

PARTITIONS = 8_000


def stored(run: PipelineRun) -> Mapping[TopicId, Topic]:
    """Returns the topics in the newest state."""
    monitor = ClusterMonitor.restored(
        read_states(run.spark, run.checkpoint.location)["prod"],
        settings_of("prod"),
        pages=PageFiles(run.checkpoint.spark, "prod"),
    )
    return monitor.machine.log.partitions.topics


def page_files(run: PipelineRun) -> set[Path]:
    return {path for path in (run.checkpoint.spark / "pages").rglob("*") if path.is_file()}


def test_a_state_with_pages_survives_a_restart_and_the_loss_of_a_page(spark: SparkSession, tmp_path: Path) -> None:
    run = PipelineRun(spark, tmp_path)
    run.start()
    run.batch(lambda: read_piece(run, 0))
    run.batch(lambda: read_piece(run, 1))
    run.close()
    run = PipelineRun(spark, tmp_path)
    run.start()
    run.batch(lambda: read_piece(run, 2))
    run.batch(run.lose_the_leader)
    run.close()
    whole = stored(run)
    assert sum(len(topic.partitions) for topic in whole.values()) == PARTITIONS
    assert stored_references("prod", read_states(spark, run.checkpoint.location)["prod"])
    assert [*JournalReader(run.checkpoint.journal).snapshots("prod")]

    for path in page_files(run):
        path.unlink()
    # The snapshots in the journal have their pages.
    recorded = replay_recording(open_journal(run.checkpoint.journal), settings_of)["prod"]
    assert recorded.machine.log.partitions.topics == whole
    run = PipelineRun(spark, tmp_path)
    # The worker keeps a state that it has decoded, until its settings change.
    run.settings = {"prod": replace(settings_of("prod"), thresholds=thresholds_for({"no-leader.hold": 6}))}
    run.start()
    with pytest.raises(
        StateError, match=r"the state of cluster prod lacks a page: .*/pages/prod/\w+ is missing"
    ) as lost:
        run.batch(run.lose_the_leader)
    run.close()
    assert "from the journal" in set_state_aside(run.checkpoint, lost.value.why)
    run = PipelineRun(spark, tmp_path)
    run.start()
    run.batch(run.lose_the_leader)
    run.close()
    assert stored(run) == whole
