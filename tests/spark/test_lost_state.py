"""A state of Spark, or a ledger, that is damaged or lost, on a real Spark: no alert is lost or sent twice."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.errors import UsageError
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import sqlite_database
from streaming.job.repair import plan_repair
from streaming.job.spark_state import set_state_aside, unreadable_state
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.spark.errors import JobError
from tests.spark.pipeline_run import WEEK_S, PipelineRun
from tests.unit.connectors.sinks.sink_alerts import RecordingSink

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SHORT_RETENTION_S = 5
"""Of the rows' clock: the first rows are deleted when the journal is opened again."""
FIRING, RESOLVED = ("no-leader", "firing"), ("no-leader", "resolved")


class PagedRun(PipelineRun):
    """A pipeline that also sends to a pager."""

    def run(self, *, pager_down: bool = False) -> None:
        self.pager = RecordingSink("pager")
        self.pager.unreachable = pager_down
        self.start(self.pager, patience_s=30)

    def pages(self) -> list[tuple[str, str]]:
        return [(each.rule, each.state.value) for each in self.pager.transitions if each.cluster == "prod"]


def recorded(spark: SparkSession, folder: Path) -> Path:
    """Returns the folder of a stopped run: one alert fires, is in the jsonl file, and is pending for the pager."""
    run = PagedRun(spark, folder)
    run.run(pager_down=True)
    for _ in range(9):
        run.batch(run.lose_the_leader)
    assert run.transitions() == [FIRING]
    assert run.ledger.pending_count("pager") == 1
    run.close()
    run.checkpoint.record_cluster_ids({"prod": "id-of-prod"})
    return folder


@pytest.fixture(scope="module")
def complete(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(spark, tmp_path_factory.mktemp("complete"))


@pytest.fixture(scope="module")
def trimmed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `complete`, but retention has deleted the first rows of the journal."""
    folder = recorded(spark, tmp_path_factory.mktemp("trimmed"))
    with JournalWriter(folder / "checkpoint" / "journal", keep_s=SHORT_RETENTION_S):
        pass
    assert JournalReader(folder / "checkpoint" / "journal").first_sequence() > 0
    return folder


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(bytes(content))


def newest_change(checkpoint: Checkpoint) -> Path:
    """Returns the newest change of the state; no snapshot is left that holds it."""
    state, version = checkpoint.spark / "state" / "0" / "0", checkpoint.spark_files.commits[-1] + 1
    for snapshot in state.glob("*.zip"):
        if int(snapshot.stem) >= version:
            snapshot.unlink()
    return state / f"{version}.changelog"


def power_failure(checkpoint: Checkpoint) -> None:
    """The newest of Spark's files are empty: it does not sync them."""
    files = checkpoint.spark_files
    for log, numbers in (("offsets", files.offsets[-2:]), ("commits", files.commits[-2:])):
        for number in numbers:
            empty(checkpoint.spark / log / str(number))
    empty(newest_change(checkpoint))


def without_offsets(count: int) -> "Damage":
    """A copy of the folder that was made while the job ran lacks the newest offsets, and has their commits."""

    def damage(checkpoint: Checkpoint) -> None:
        newest = checkpoint.spark_files.commits[-1]
        for number in checkpoint.spark_files.offsets:
            if number > newest - count:
                (checkpoint.spark / "offsets" / str(number)).unlink()

    return damage


Damage = Callable[[Checkpoint], None]


def damaged_copy(source: Path, target: Path, damage: Damage) -> Checkpoint:
    shutil.copytree(source, target, dirs_exist_ok=True)
    checkpoint = Checkpoint(folder=target / "checkpoint")
    # A process of Spark that still reads the source keeps its rows in the log beside the database.
    with closing(sqlite3.connect(journal_file(checkpoint.journal))) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(checkpoint)
    return checkpoint


def assert_continues(spark: SparkSession, folder: Path, journal: str = "complete") -> None:
    """Asserts that the alert is not sent again to jsonl, reaches the pager once, and resolves once in both."""
    run = PagedRun(spark, folder, keep_s=WEEK_S if journal == "complete" else SHORT_RETENTION_S)
    try:
        run.run()
        for _ in range(2):
            run.batch(run.lose_the_leader)
        run.have_a_leader(times=14)
        run.batch(run.have_a_leader)
        run.batch(run.have_a_leader)
        assert run.transitions() == run.pages() == [FIRING, RESOLVED]
    finally:
        run.close()


@pytest.mark.parametrize(
    ("damage", "journal", "rows"),
    [
        (power_failure, "complete", "the journal"),
        (lambda checkpoint: (checkpoint.spark / "metadata").unlink(), "trimmed", "each cluster's metadata log"),
        (without_offsets(1), "complete", "the journal"),
        (without_offsets(3), "trimmed", "each cluster's metadata log"),
    ],
    ids=["power failure", "metadata missing", "newest offsets missing", "three offsets missing"],
)
def test_a_state_with_damaged_logs_is_set_aside_and_built_again(
    spark: SparkSession, complete: Path, trimmed: Path, tmp_path: Path, damage: Damage, journal: str, rows: str
) -> None:
    checkpoint = damaged_copy(complete if journal == "complete" else trimmed, tmp_path, damage)
    why = checkpoint.why_no_state()
    assert " is damaged (" in str(why)

    assert f"It is built again from {rows}" in set_state_aside(checkpoint, str(why))

    assert checkpoint.why_no_state() is None
    assert_continues(spark, tmp_path, journal)


@pytest.mark.parametrize(
    "damage",
    [
        lambda checkpoint: flip(newest_change(checkpoint)),
        lambda checkpoint: newest_change(checkpoint).unlink(),
        lambda checkpoint: shutil.rmtree(checkpoint.spark / "state"),
    ],
    ids=["changed", "newest version missing", "folder missing"],
)
def test_a_state_that_spark_cannot_read_is_set_aside_and_built_again(
    spark: SparkSession, trimmed: Path, tmp_path: Path, damage: Damage
) -> None:
    checkpoint = damaged_copy(trimmed, tmp_path, damage)
    assert checkpoint.why_no_state() is None
    with pytest.raises(JobError):
        evaluate(spark, tmp_path)

    why = unreadable_state(spark, checkpoint)

    assert "Spark cannot read it: " in str(why)
    set_state_aside(checkpoint, str(why))
    assert unreadable_state(spark, checkpoint) is None
    assert_continues(spark, tmp_path, "trimmed")


def test_a_state_that_spark_can_read_is_kept(spark: SparkSession, complete: Path) -> None:
    assert unreadable_state(spark, Checkpoint(folder=complete / "checkpoint")) is None


def evaluate(spark: SparkSession, folder: Path) -> None:
    """Starts the job and evaluates a row."""
    run = PagedRun(spark, folder)
    try:
        run.run()
        run.batch(run.lose_the_leader)
    finally:
        run.close()


def only_the_database(checkpoint: Checkpoint) -> None:
    for folder in (checkpoint.spark, checkpoint.journal):
        shutil.rmtree(folder)
    checkpoint.identity.unlink()


def test_a_new_folder_with_a_copy_of_the_database_goes_on_with_the_alerts(
    spark: SparkSession, complete: Path, tmp_path: Path
) -> None:
    """As the sentence about a folder that another version has written says."""
    checkpoint = damaged_copy(complete, tmp_path, only_the_database)
    checkpoint.check_observations()
    checkpoint.check_database()
    assert checkpoint.why_no_state() is None

    assert_continues(spark, tmp_path)


def test_a_lost_database_is_replaced_and_what_is_firing_is_found_again(
    spark: SparkSession, complete: Path, tmp_path: Path
) -> None:
    checkpoint = damaged_copy(complete, tmp_path, lambda folder: sqlite_database(folder.folder).path.unlink())
    with pytest.raises(UsageError, match=r"kraftwatch\.db does not exist.*kraftwatch repair"):
        checkpoint.check_database()

    (step,) = plan_repair(checkpoint)
    step.apply()

    assert [*plan_repair(checkpoint)] == []
    run = PagedRun(spark, tmp_path)
    try:
        run.run()
        for _ in range(9):
            run.batch(run.lose_the_leader)
        assert run.pages() == [FIRING]
    finally:
        run.close()
