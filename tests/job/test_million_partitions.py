"""One cluster with a million partitions: a real controller on such a snapshot, changes all the time, and kills."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from connectors.errors import JournalError
from connectors.observations.observation import ObservationKind
from connectors.store.journal_reader import JournalReader
from rules.evaluate import thresholds_for
from rules.model.identifiers import TopicId
from streaming.demo.job_process import JobProcess, JobProcessError
from streaming.job.spark_state import read_states
from streaming.pipeline.page_files import PageFiles
from streaming.pipeline.spark.spark_session import start_spark
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from tests.bench.million_bench import MemorySamples, await_verdict
from tests.eventually import eventually
from tests.job.job_state import cluster_status, get_json
from tests.kafka.large_quorum import LargeQuorum

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]

TOPICS, PARTITIONS = 100_000, 10
CHANGES_PER_S = 10.0
CHANGES = 400
MOST_MEMORY_MB = 3 * 1024**3 / 1e6
STATE_BYTES, BYTES_PER_CHANGE = 64 * 1024, 50


@pytest.fixture(scope="module")
def quorum(folder: Path) -> Iterator[LargeQuorum]:
    with LargeQuorum(folder / "lab") as quorum:
        quorum.load(TOPICS, PARTITIONS)
        yield quorum


@pytest.fixture(scope="module")
def reader(folder: Path) -> Iterator[SparkSession]:
    """Spark, to read the state of stopped jobs."""
    session = start_spark(master="local[1]", logs=folder / "log", settings={})
    yield session
    session.stop()


def new_job(quorum: LargeQuorum, folder: Path) -> JobProcess:
    return JobProcess(folder=folder, name="test", bootstrap=quorum.bootstrap)


def change_partitions(job: JobProcess, quorum: LargeQuorum) -> None:
    """Changes partitions for a while, and waits until Spark has evaluated the last change."""
    with quorum.changing(CHANGES_PER_S) as changes:
        eventually(lambda: changes.done >= CHANGES, within_s=2 * CHANGES / CHANGES_PER_S)
    end = quorum.await_state(lambda state: True, what="a leader").high_watermark
    eventually(lambda: cluster_status(job)["last_offset"] >= end - 1, within_s=60)
    # On a busy machine the understudy is ahead of Spark, whose state this is about.
    eventually(lambda: get_json(job, "/healthz")["engine"] == "spark", within_s=60)


def stored(job: JobProcess, reader: SparkSession) -> ClusterMonitor | None:
    """Returns the newest state of a stopped job; None if no batch was committed."""
    spark = job.checkpoint / "spark"
    states = (
        read_states(reader, str(spark)) if (spark / "commits").exists() and [*(spark / "commits").iterdir()] else {}
    )
    if "test" not in states:
        return None
    return ClusterMonitor.restored(
        states["test"], ClusterSettings(name="test", thresholds=thresholds_for({})), pages=PageFiles(spark, "test")
    )


def assert_stored_as_in_the_controller(job: JobProcess, quorum: LargeQuorum, reader: SparkSession) -> None:
    monitor = stored(job, reader)
    assert monitor is not None
    topics = monitor.machine.log.partitions.topics
    assert sum(len(topic.partitions) for topic in topics.values()) == quorum.counts.partitions
    for one in quorum.changeable:
        held = topics[TopicId(one.topic_id)].partitions[one.partition]
        assert (held.isr, held.replicas) == (one.replicas[: one.in_sync], one.replicas)
        assert (held.leader_epoch, held.partition_epoch) == (one.leader_epoch, one.partition_epoch)


def pieces(job: JobProcess) -> int:
    """Returns how many pieces of the snapshot are in the journal."""
    journal = JournalReader(job.checkpoint / "journal")
    try:
        rows = journal.read(journal.first_sequence(), journal.published_end())
        return sum(row.kind is ObservationKind.SNAPSHOT for row in rows)
    except JournalError:
        return 0


def test_a_batch_writes_what_changed_and_not_what_is_known(
    quorum: LargeQuorum, folder: Path, reader: SparkSession
) -> None:
    job = new_job(quorum, folder / "job")
    with MemorySamples(job) as memory, job:
        await_verdict(job, quorum)
        first = max(int(path.name) for path in (job.checkpoint / "spark" / "commits").iterdir())
        change_partitions(job, quorum)
    files = (job.checkpoint / "spark" / "state" / "0" / "0").glob("*.changelog")
    sizes = [path.stat().st_size for path in files if int(path.stem.split("_")[0]) > first + 1]

    assert sizes
    assert max(sizes) < STATE_BYTES + BYTES_PER_CHANGE * CHANGES
    assert 0 < memory.largest_mb < MOST_MEMORY_MB
    assert_stored_as_in_the_controller(job, quorum, reader)


def test_kills_in_the_middle_of_the_snapshot_change_nothing(
    quorum: LargeQuorum, folder: Path, reader: SparkSession
) -> None:
    job = new_job(quorum, folder / "killed")
    with ThreadPoolExecutor(1) as starter:
        starting = starter.submit(job.start)
        eventually(lambda: pieces(job) > 0, within_s=60)
        job.kill()
        with pytest.raises(JobProcessError):
            starting.result()

        starting = starter.submit(job.start)
        eventually(lambda: any((job.checkpoint / "spark" / "pages").rglob("*")), within_s=60)
        job.kill()
        with suppress(JobProcessError):
            starting.result()
    monitor = stored(job, reader)
    assert monitor is None or monitor.machine.loading is not None, "it was killed within the snapshot"

    with job:
        await_verdict(job, quorum)
        change_partitions(job, quorum)
        job.kill()
        job.start()
        await_verdict(job, quorum)
        change_partitions(job, quorum)
    assert_stored_as_in_the_controller(job, quorum, reader)
