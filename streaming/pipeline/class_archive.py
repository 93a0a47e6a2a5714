"""Writes the archive of the classes that Spark's Java loads in a job (AppCDS), with which a job starts faster.

`python -m streaming.pipeline.class_archive` runs the job's query on one row; its Java writes the archive as it ends.
`start_spark` uses it. Java ignores an archive of another Java or of other jars: a start takes longer then.
"""

import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from connectors.delivery.ledger import Ledger
from connectors.errors import KraftwatchError, ProcessEndedError
from connectors.observations.observation import Observation, ObservationKind, to_json
from connectors.process.wall_clock import wall_ms
from connectors.store.collection import quarantine_of
from connectors.store.durable_file import sync_path
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.query import Query
from streaming.pipeline.spark.internals import end_java
from streaming.pipeline.spark.spark_session import CLASS_ARCHIVES, start_spark
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.status_store import StatusStore

_CLUSTER = "none"
_ADDRESS = "localhost:1"
_ENDS_WITHIN_S = 300


def main() -> int:
    """Writes the archive; returns the exit code: 1 if there is none, with the reason on stderr."""
    try:
        write(CLASS_ARCHIVES)
    except (KraftwatchError, OSError, subprocess.TimeoutExpired) as problem:
        sys.stderr.write(f"no class archive, so that a job starts more slowly: {problem}\n")
        return 1
    return 0


def write(archives: Path) -> None:
    """Writes the archive into the folder, which need not exist, and deletes others in it.

    Raises KraftwatchError if Spark does not run here, or its Java has written nothing; OSError.
    """
    archives.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kraftwatch-classes-") as name:
        written = Path(name) / "spark.jsa"
        _run_query(Path(name), written)
        if not written.is_file():
            raise ProcessEndedError("Spark's Java has ended without writing it")
        for former in archives.glob("*.jsa"):
            former.unlink()
        archive = archives / f"{written.stat().st_size}.jsa"
        shutil.copyfile(written, archive)
        sync_path(archive)


def _run_query(folder: Path, written: Path) -> None:
    """Runs the job's query until it has committed a batch, and waits until its Java has ended."""
    checkpoint = Checkpoint(folder=folder / "checkpoint")
    with JournalWriter(checkpoint.journal) as journal, closing(job_database(checkpoint.folder)) as database:
        ledger = Ledger(database)
        store = StatusStore([_CLUSTER])
        notifying = Notifying(ledger, (), store=store)
        deliver = Deliver(notifying, quarantine_of(database), store=store)
        spark = start_spark(master="local[2]", logs=checkpoint.logs, settings={}, written_archive=written)
        query = Query(checkpoint, deliver)
        settings = {_CLUSTER: ClusterSettings(name=_CLUSTER, bootstrap=(_ADDRESS,))}
        query.start(spark, ClusterProcessor(settings, spark_folder=checkpoint.pages))
        failed = FailedObservation(source=ObservationSource.QUORUM, endpoint=_ADDRESS, reason=Reason.REFUSED, detail="")
        for batch in range(2):
            row = Observation(
                cluster=_CLUSTER, kind=ObservationKind.FAILED, observed_at_ms=wall_ms(), payload=to_json(failed)
            )
            journal.append([row])
            journal.publish()
            _await_commit(batch, query, checkpoint)
        query.stop()
        spark.stop()
        end_java(_ENDS_WITHIN_S)


def _await_commit(batch: int, query: Query, checkpoint: Checkpoint) -> None:
    for _ in range(_ENDS_WITHIN_S):
        if len(checkpoint.spark_files.commits) > batch:
            return
        query.wait(1)
    raise ProcessEndedError(f"Spark has completed no batch within {_ENDS_WITHIN_S} s")


if __name__ == "__main__":
    sys.exit(main())
