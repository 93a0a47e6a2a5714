"""The job is killed while only some clusters have state in a new Spark checkpoint: the others keep their alerts."""

from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.store.alert_codec import ALERT
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.model.monitoring import Vantage
from streaming.job import checkpoint_repair
from streaming.job.clusters_without_state import ClustersWithoutState
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.initial_alerts import StepWithInitialAlerts
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from tests.unit.streaming.pipeline.test_step_containment import BOOTSTRAP, OneCluster, healthy, leaderless

SETTINGS = {
    name: ClusterSettings(name=name, cluster_id="cluster-id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE)
    for name in ("prod", "early")
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Returns a checkpoint without Spark's state, whose ledger has a firing alert of prod."""
    cluster = OneCluster()
    for _ in range(40):
        cluster.batch(leaderless(), restarted=False)
    (alert,) = [ALERT.validate_json(row.body) for row in cluster.taken("alert")]
    checkpoint = Checkpoint(folder=tmp_path)
    ledger = Ledger(job_database(checkpoint.folder))
    ledger.record([alert], alert.observed_at_ms)
    return checkpoint


class JobRun:
    """A start of the job: what it passes to the query, and the batches that Spark delivers and commits."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        ledger = Ledger(job_database(checkpoint.folder))
        self.checkpoint = checkpoint
        self.clusters = ClustersWithoutState(checkpoint, ledger)
        self.step = self.clusters.step(SETTINGS)

    def batch(self, *clusters: str, committed: bool = True) -> None:
        self.clusters.batch_delivered(clusters)
        commits = self.checkpoint.spark / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        if committed:
            (commits / str(len(list(commits.iterdir())))).write_text("v1\n{}")

    def knows_the_alert(self) -> bool:
        return isinstance(self.step, StepWithInitialAlerts)

    def transitions_of_prod(self) -> list[str]:
        """Returns the transitions with the rows of a healthy cluster, from no state."""
        cluster = OneCluster(sequence=100)
        Step._cache.clear()
        for _ in range(40):
            for frame in cluster.pass_to(self.step, cluster.frame(healthy())):
                cluster.output += list(frame.itertuples(index=False))
        return [state for rule, _, state in cluster.alerts() if rule == "no-leader"]


def test_cluster_without_state_keeps_its_alert_after_a_kill(checkpoint: Checkpoint) -> None:
    JobRun(checkpoint).batch("early")

    assert JobRun(checkpoint).transitions_of_prod() == ["resolved"]


def test_repair_that_goes_back_before_the_first_batch_of_a_cluster_keeps_its_alert(checkpoint: Checkpoint) -> None:
    """Spark continues after a batch in which the cluster had no state yet."""
    run = JobRun(checkpoint)
    with JournalWriter(checkpoint.journal) as journal:
        offsets = checkpoint.spark / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text(f'v1\n{{}}\n{{"journal": "{journal.journal_id}", "sequence": 0}}')
    for clusters in (("early",), ("prod",), ("prod",)):
        run.batch(*clusters)
    assert not JobRun(checkpoint).knows_the_alert()

    checkpoint_repair._continue_after(checkpoint, 0)

    assert JobRun(checkpoint).transitions_of_prod() == ["resolved"]
    again = JobRun(checkpoint)
    for _ in range(2):
        again.batch("prod", "early")
    assert not JobRun(checkpoint).knows_the_alert()


def test_a_batch_counts_once_the_next_one_is_delivered(checkpoint: Checkpoint) -> None:
    killed = JobRun(checkpoint)
    killed.batch("early")
    killed.batch("prod", committed=False)
    assert JobRun(checkpoint).knows_the_alert()

    repeated = JobRun(checkpoint)
    repeated.batch("prod")
    repeated.batch("early")
    assert not JobRun(checkpoint).knows_the_alert()
    assert [path.name for path in checkpoint.folder.glob("clusters-without-state*")] == []


def test_a_restarted_query_repeats_its_batch(checkpoint: Checkpoint) -> None:
    run = JobRun(checkpoint)
    run.batch("early")
    run.batch("prod", committed=False)
    run.step = run.clusters.step(SETTINGS)
    run.batch("prod", committed=False)

    assert JobRun(checkpoint).knows_the_alert()


def test_a_damaged_file_costs_no_alert(checkpoint: Checkpoint) -> None:
    JobRun(checkpoint).batch("early")
    (file,) = checkpoint.folder.glob("clusters-without-state*")
    file.write_bytes(b"")

    assert JobRun(checkpoint).transitions_of_prod() == ["resolved"]


def test_cluster_that_is_not_configured_now_is_remembered(checkpoint: Checkpoint) -> None:
    JobRun(checkpoint).batch("early")
    ledger = Ledger(job_database(checkpoint.folder))
    assert type(ClustersWithoutState(checkpoint, ledger).step({"early": SETTINGS["early"]})) is Step

    assert JobRun(checkpoint).knows_the_alert()


def test_a_new_checkpoint_without_alerts_has_a_plain_step(tmp_path: Path) -> None:
    assert not JobRun(Checkpoint(folder=tmp_path)).knows_the_alert()
    assert not list(tmp_path.glob("clusters-without-state*"))
