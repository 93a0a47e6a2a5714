"""Damaged files of a checkpoint, on a real Spark: named, repaired, and no alert is lost or sent twice."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.errors import UsageError
from connectors.observations.observation import Observation, ObservationKind
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Sink
from connectors.store.collection import quarantine_of
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import sqlite_database
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.job.checkpoint_repair import RepairStep, plan_repair
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.early_alerts import initial_states
from streaming.pipeline.query import JobError, Query
from streaming.pipeline.spark_session import SETTINGS as SPARK_SETTINGS
from streaming.pipeline.step import Step
from streaming.replay.cluster_settings import ClusterSettings
from tests.eventually import eventually
from tests.spark.test_pipeline import BOOTSTRAP, Pipeline, poll_with_leader, poll_without_leader
from tests.unit.connectors.sinks.sink_alerts import RecordingSink

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore::ResourceWarning")]

SETTINGS = {
    "prod": ClusterSettings(
        name="prod", cluster_id="id", bootstrap=BOOTSTRAP, vantage=Vantage.INSIDE, thresholds=thresholds_for({})
    )
}
SHORT_RETENTION = {"keep_s": 5}
"""Of the rows' clock: the first rows are deleted when the journal is opened again."""


class MonitoringRun(Pipeline):
    """The pipeline as the job starts it: with the ledger's alerts in a new state."""

    def __init__(self, spark: SparkSession, folder: Path, **journal: int) -> None:
        super().__init__(spark, folder)
        if journal:
            self.writer.__exit__(None, None, None)
            self.writer = JournalWriter(self.checkpoint.journal, **journal)
            self.writer.__enter__()
        self.pager = RecordingSink("pager")
        newest = max(
            (row.observed_at_ms for row in _rows(self.checkpoint)),
            default=self.now_ms,
        )
        self.now_ms = max(self.now_ms, newest + 1_000)

    def run(self, *, pager_down: bool = False) -> None:
        self.ledger = Ledger(sqlite_database(self.checkpoint.folder))
        self.pager.unreachable = pager_down
        sinks: list[Sink] = [JsonlSink(self.folder / "alerts.jsonl"), self.pager]
        dispatcher = Dispatcher(self.ledger, sinks, deadline_s=120, patience_s=30)
        deliver = Deliver(
            lambda: dispatcher,
            self.ledger,
            quarantine_of(sqlite_database(self.checkpoint.folder)),
            store=self.store,
            request_poll=lambda *_: None,
        )
        self.query = Query(self.spark, self.checkpoint, deliver)
        initial = initial_states(SETTINGS, self.ledger.history(), self.ledger.firing(), now_ms=Millis(self.now_ms))
        self.query.start(Step(SETTINGS, initial=initial, spark_folder=self.checkpoint.pages))

    def close(self) -> None:
        self.stop()

    def lose_the_leader(self) -> None:
        polls = [poll_without_leader(f"c{node}:9093") for node in (1, 2, 3)]
        self.observe(ObservationKind.FAILED, *polls)

    def batch(self, observe: Callable[[], None]) -> None:
        """Observes, and waits until the rows are evaluated in a committed batch."""
        assert self.query is not None
        query, files = self.query, self.checkpoint.spark_files
        before = len(files.commits)
        last = files.commits[-1] if before else -1
        observe()

        def committed() -> None:
            query.wait(1)
            assert files.commits
            assert files.commits[-1] > last
            end = files.newest_planned_end()
            assert end is not None
            assert end.sequence == self.writer.published_end

        eventually(committed, within_s=60)

    def transitions(self) -> list[tuple[str, str]]:
        """Returns the alerts about the cluster in the jsonl file; those about kraftwatch itself are left out."""
        path = self.folder / "alerts.jsonl"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [(line["rule"], line["state"]) for line in lines if line["cluster"] == "prod"]

    def pages(self) -> list[tuple[str, str]]:
        return [(each.rule, each.state.value) for each in self.pager.transitions if each.cluster == "prod"]


def _rows(checkpoint: Checkpoint) -> Iterator[Observation]:
    journal = JournalReader(checkpoint.journal)
    if journal.created:
        yield from journal.read(journal.first_sequence(), journal.published_end())


def recorded(spark: SparkSession, folder: Path) -> Path:
    """Returns the folder of a stopped run: one alert fires, is in the jsonl file, and is pending for the pager."""
    run = MonitoringRun(spark, folder)
    run.run(pager_down=True)
    for _ in range(9):
        run.batch(run.lose_the_leader)
    assert run.transitions() == [("no-leader", "firing")]
    assert run.ledger.pending_count("pager") == 1
    run.close()
    run.checkpoint.record_cluster_ids({"prod": "id"})
    return folder


@pytest.fixture(scope="module", autouse=True)
def older_batches(spark: SparkSession) -> Iterator[None]:
    """Spark keeps as many old batches as in a job; the other tests let it delete them at once."""
    key = "spark.sql.streaming.minBatchesToRetain"
    before = str(spark.conf.get(key))
    spark.conf.set(key, SPARK_SETTINGS[key])
    yield
    spark.conf.set(key, before)


@pytest.fixture(scope="module")
def complete(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(spark, tmp_path_factory.mktemp("complete"))


@pytest.fixture(scope="module")
def trimmed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `complete`, but retention has deleted the first rows of the journal."""
    folder = recorded(spark, tmp_path_factory.mktemp("trimmed"))
    with JournalWriter(folder / "checkpoint" / "journal", **SHORT_RETENTION):
        pass
    assert JournalReader(folder / "checkpoint" / "journal").first_sequence() > 0
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        # SQLite's index of the file beside it, which readers share.
        if path.is_file()
        and path.name != "lock"
        and not path.name.endswith("-shm")
        # An empty log is what a reader leaves.
        and not (path.name.endswith("-wal") and path.stat().st_size == 0)
    }


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1
    path.write_bytes(bytes(content))


def newest(checkpoint: Checkpoint, log: str, back: int = 0) -> Path:
    files = checkpoint.spark_files
    return checkpoint.spark / log / str((files.offsets if log == "offsets" else files.commits)[-1 - back])


def changelog(checkpoint: Checkpoint, back: int = 0) -> Path:
    """Returns a change of the state; no snapshot is left that holds it."""
    state, version = checkpoint.spark_files.state, checkpoint.spark_files.commits[-1] + 1 - back
    for snapshot in state.glob("*.zip"):
        if int(snapshot.stem) >= version:
            snapshot.unlink()
    return state / f"{version}.changelog"


def power_failure(checkpoint: Checkpoint) -> None:
    """The newest of Spark's files are empty: it does not sync them."""
    for path in (
        newest(checkpoint, "offsets"),
        newest(checkpoint, "offsets", 1),
        newest(checkpoint, "commits"),
        newest(checkpoint, "commits", 1),
        changelog(checkpoint),
        changelog(checkpoint, 1),
    ):
        empty(path)


def every_offset(checkpoint: Checkpoint) -> None:
    for path in (checkpoint.spark / "offsets").iterdir():
        empty(path)


Damage = Callable[[Checkpoint], None]
SPARK_DAMAGE: dict[str, Damage] = {
    "metadata empty": lambda folder: empty(folder.spark / "metadata"),
    "metadata missing": lambda folder: (folder.spark / "metadata").unlink(),
    "newest offset empty": lambda folder: empty(newest(folder, "offsets")),
    "newest offset cut": lambda folder: os.truncate(newest(folder, "offsets"), 500),
    "offset before it empty": lambda folder: empty(newest(folder, "offsets", 1)),
    "newest offset missing": lambda folder: newest(folder, "offsets").unlink(),
    "newest commit empty": lambda folder: empty(newest(folder, "commits")),
    "newest state change empty": lambda folder: empty(changelog(folder)),
    "newest state change changed": lambda folder: flip(changelog(folder)),
    "newest state change missing": lambda folder: changelog(folder).unlink(),
    "state change before it changed": lambda folder: flip(changelog(folder, 1)),
    "schema empty": lambda folder: empty(folder.spark_files.state / "_metadata" / "schema"),
    "power failure": power_failure,
    "every offset empty": every_offset,
}


REPAIRS = {
    "metadata empty": "It is written again",
    "metadata missing": "It is written again",
    "schema empty": "spark/ is moved away; the next start builds the state again from the journal",
    "every offset empty": "spark/ is moved away; the next start builds the state again from the journal",
}
"""How the repair begins; for all other damage, Spark continues after an intact batch."""


def damaged_copy(source: Path, target: Path, damage: Damage) -> Checkpoint:
    shutil.copytree(source, target, dirs_exist_ok=True)
    checkpoint = Checkpoint(folder=target / "checkpoint")
    # A process of Spark that still reads the source keeps its rows in the log beside the database.
    with closing(sqlite3.connect(journal_file(checkpoint.journal))) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    damage(checkpoint)
    return checkpoint


USUAL_DAMAGE = frozenset({"newest offset empty", "newest state change changed", "power failure"})
"""Each kind of repair once; the other kinds of damage are long tests."""


def repaired(checkpoint: Checkpoint, spark: SparkSession) -> list[RepairStep]:
    """Repairs the checkpoint after a dry run, which must find the same and change nothing; returns the steps."""
    before = contents(checkpoint.folder)
    dry = [(step.found, step.repair) for step in plan_repair(checkpoint, lambda: spark)]
    assert contents(checkpoint.folder) == before
    steps = []
    for step in plan_repair(checkpoint, lambda: spark):
        steps.append(step)
        step.apply()
    assert [(step.found, step.repair) for step in steps] == dry
    return steps


def lose_and_restore_the_leader(run: MonitoringRun) -> None:
    """Runs the batches in which `no-leader` goes on firing and then resolves."""
    run.run()
    for _ in range(2):
        run.batch(run.lose_the_leader)
    for _ in range(14):
        run.observe(ObservationKind.QUORUM, poll_with_leader())
    run.batch(lambda: run.observe(ObservationKind.QUORUM, poll_with_leader()))
    run.batch(lambda: run.observe(ObservationKind.QUORUM, poll_with_leader()))


def assert_continues(spark: SparkSession, folder: Path, **journal: int) -> None:
    """Asserts that the alert is not sent again to jsonl, reaches the pager once, and resolves once in both."""
    run = MonitoringRun(spark, folder, **journal)
    try:
        lose_and_restore_the_leader(run)
        assert run.transitions() == [("no-leader", "firing"), ("no-leader", "resolved")]
        assert run.pages() == [("no-leader", "firing"), ("no-leader", "resolved")]
    finally:
        run.close()


@pytest.mark.parametrize(
    "damage", [name if name in USUAL_DAMAGE else pytest.param(name, marks=pytest.mark.long) for name in SPARK_DAMAGE]
)
def test_damaged_spark_files_are_repaired(spark: SparkSession, complete: Path, tmp_path: Path, damage: str) -> None:
    checkpoint = damaged_copy(complete, tmp_path, SPARK_DAMAGE[damage])

    (step,) = repaired(checkpoint, spark)

    assert step.repair.startswith(REPAIRS.get(damage, "Spark continues after batch"))
    assert list(plan_repair(checkpoint, lambda: spark)) == []
    assert_continues(spark, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(
    "damage",
    ["newest offset empty", "newest state change changed", "schema empty", "every offset empty", "power failure"],
)
def test_the_journal_need_not_be_complete(spark: SparkSession, trimmed: Path, tmp_path: Path, damage: str) -> None:
    checkpoint = damaged_copy(trimmed, tmp_path, SPARK_DAMAGE[damage])

    (step,) = repaired(checkpoint, spark)

    lost = damage in ("schema empty", "every offset empty")
    assert step.repair.startswith("Spark starts with a new state" if lost else "Spark continues after batch")
    assert list(plan_repair(checkpoint, lambda: spark)) == []
    checkpoint.check_spark()
    checkpoint.check_journal()
    assert_continues(spark, tmp_path, **SHORT_RETENTION)


@pytest.mark.parametrize("journal", ["complete", "trimmed"])
def test_a_lost_spark_folder_is_rebuilt(
    spark: SparkSession, complete: Path, trimmed: Path, tmp_path: Path, journal: str
) -> None:
    source = complete if journal == "complete" else trimmed
    checkpoint = damaged_copy(source, tmp_path, lambda folder: shutil.rmtree(folder.spark))

    steps = repaired(checkpoint, spark)

    assert len(steps) == (0 if journal == "complete" else 1)
    checkpoint.check_journal()
    assert_continues(spark, tmp_path, **({} if journal == "complete" else SHORT_RETENTION))


def damage_a_page_with(checkpoint: Checkpoint, content: bytes) -> None:
    """Overwrites the first page of the journal's database that holds this."""
    path = journal_file(checkpoint.journal)
    pages = bytearray(path.read_bytes())
    at = pages.index(content) // 4096 * 4096
    pages[at : at + 4096] = b"\xff" * 4096
    path.write_bytes(pages)


def test_the_rows_behind_a_damaged_page_of_the_journal_are_kept(
    spark: SparkSession, complete: Path, tmp_path: Path
) -> None:
    checkpoint = damaged_copy(complete, tmp_path, lambda folder: damage_a_page_with(folder, b"observation-failed"))
    with pytest.raises(UsageError, match=r"observations\.db is damaged: .*kraftwatch checkpoint repair"):
        checkpoint.check_journal()

    (step,) = repaired(checkpoint, spark)

    assert step.found.startswith(f"{journal_file(checkpoint.journal)} is damaged: ")
    journal, before = JournalReader(checkpoint.journal), JournalReader(complete / "checkpoint/journal")
    assert journal.published_end() == before.published_end()
    assert journal.first_sequence() > 0
    assert list(plan_repair(checkpoint, lambda: spark)) == []
    assert_continues(spark, tmp_path)


def test_a_journal_of_which_nothing_can_be_read_is_replaced(
    spark: SparkSession, complete: Path, tmp_path: Path
) -> None:
    checkpoint = damaged_copy(complete, tmp_path, lambda folder: empty(journal_file(folder.journal)))

    journal, logs = repaired(checkpoint, spark)

    assert journal.found == f"{journal_file(checkpoint.journal)} is damaged: it is empty"
    assert logs.repair.startswith("Spark starts with a new state")
    end = JournalReader(complete / "checkpoint/journal").published_end()
    assert JournalReader(checkpoint.journal).beginning() == end
    assert_continues(spark, tmp_path)


def test_a_lost_database_is_replaced_and_what_is_firing_is_found_again(
    spark: SparkSession, complete: Path, tmp_path: Path
) -> None:
    checkpoint = damaged_copy(complete, tmp_path, lambda folder: sqlite_database(folder.folder).path.unlink())
    with pytest.raises(UsageError, match=r"kraftwatch\.db does not exist.*kraftwatch checkpoint repair"):
        checkpoint.check_database()

    found = [step.found for step in repaired(checkpoint, spark)]

    assert str(sqlite_database(checkpoint.folder).path) in found[0]
    assert "may be missing in the database" in found[-1]
    assert list(plan_repair(checkpoint, lambda: spark)) == []
    run = MonitoringRun(spark, tmp_path)
    try:
        run.run()
        for _ in range(9):
            run.batch(run.lose_the_leader)
        assert run.pages() == [("no-leader", "firing")]
    finally:
        run.close()


def test_spark_that_cannot_read_its_state_names_the_command(
    spark: SparkSession, complete: Path, tmp_path: Path
) -> None:
    """The file has its correct form: only Spark finds that its content has changed."""
    checkpoint = damaged_copy(complete, tmp_path, lambda folder: flip(changelog(folder)))
    checkpoint.check_spark()
    run = MonitoringRun(spark, tmp_path)
    failed: list[str] = []

    def fails() -> None:
        try:
            assert run.query is not None
            run.query.wait(1)
        except JobError as error:
            failed.append(str(error))
        assert failed

    try:
        run.run()
        run.lose_the_leader()
        eventually(fails, within_s=60)
    finally:
        run.close()
    assert "intact" not in failed[0]
    assert f"run `kraftwatch checkpoint repair --checkpoint {checkpoint.folder}`" in failed[0]


@pytest.mark.long
def test_the_command_repairs_with_its_own_spark(spark: SparkSession, complete: Path, tmp_path: Path) -> None:
    checkpoint = damaged_copy(complete, tmp_path, power_failure)
    words = ["checkpoint", "repair", "--checkpoint", str(checkpoint.folder)]

    results = [
        subprocess.run(
            [sys.executable, "-m", "streaming", *words, *more], capture_output=True, text=True, check=False, timeout=600
        )
        for more in ([], ["--apply"], [])
    ]

    assert [each.returncode for each in results] == [1, 0, 0], results
    assert "  repair: Spark continues after batch" in results[0].stdout
    assert f"{checkpoint.spark / 'offsets'}" in results[0].stdout
    assert results[2].stdout == ""
    assert_continues(spark, tmp_path)
