"""Finds the newest batch of a checkpoint from which Spark can continue. Writes nothing in the checkpoint."""

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError, UsageError
from connectors.store.journal_file import ReadableJournal
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.page_files import PageFiles
from streaming.pipeline.query import error_cause
from streaming.pipeline.schema import unpack_states
from streaming.pipeline.spark_files import SparkFiles
from streaming.replay.state_codec import stored_references
from streaming.replay.stored_topics import MissingPageError

OpenSpark = Callable[[], SparkSession]
"""Starts Spark, or returns the session that runs."""


def newest_intact(
    checkpoint: Checkpoint, journal: ReadableJournal | None, open_spark: OpenSpark
) -> tuple[int | None, str]:
    """Returns the newest batch from which Spark can continue; else None, and why the newest one cannot be read.

    Args:
        checkpoint: is read only.
        journal: what of its journal can be read.
        open_spark: is called only if Spark's state must be read.
    """
    files, first_problem = checkpoint.spark_files, ""
    for batch in reversed(files.commits):
        problem = _obstacle(journal, files, batch)
        if problem is None:
            try:
                with _until(files, batch) as folder:
                    states = read_states(open_spark(), folder, batch)
                _check_pages(files, states)
            except (UnreadableStateError, MissingPageError) as error:
                problem = str(error)
            else:
                return batch, first_problem
        first_problem = first_problem or problem
    return None, first_problem


def _check_pages(files: SparkFiles, states: Mapping[str, bytes]) -> None:
    """Reads the pages that the states need; a state that cannot be read at all concerns its cluster only."""
    for cluster, state in states.items():
        pages, needed = PageFiles(files.folder, cluster), frozenset[bytes]()
        with suppress(UsageError, ValueError):
            needed = stored_references(cluster, state)
        for reference in needed:
            pages.get(reference)


@contextmanager
def _until(files: SparkFiles, batch: int) -> Iterator[Path]:
    """Yields a view of Spark's checkpoint that ends after a batch: Spark refuses damaged files of later batches."""
    with TemporaryDirectory(prefix="kraftwatch-repair-") as name:
        view = Path(name)
        (view / "metadata").write_text(new_metadata())
        for log in ("offsets", "commits"):
            (view / log).mkdir()
            for number in range(max(batch - 1, 0), batch + 1):
                if (path := files.folder / log / str(number)).exists():
                    shutil.copyfile(path, view / log / str(number))
        (view / "state").symlink_to(files.folder / "state", target_is_directory=True)
        yield view


def new_metadata() -> str:
    """Returns the content of Spark's file `metadata`, with a random id."""
    return json.dumps({"id": str(uuid.uuid4())})


def _obstacle(journal: ReadableJournal | None, files: SparkFiles, batch: int) -> str | None:
    """Returns why Spark cannot continue after a batch, as far as the files and the journal show it."""
    end = files.planned_end(batch)
    if not files.committed(batch) or end is None or (batch > 0 and files.planned_end(batch - 1) is None):
        return f"batch {batch} has no offset or commit"
    if journal is None or journal.journal_id != end.journal_id:
        return "journal/ is not the one that Spark has read"
    if not journal.first <= end.sequence <= journal.end:
        return f"journal/ does not have row {end.sequence}"
    return None


class UnreadableStateError(KraftwatchError):
    """Spark cannot read the state of a batch."""


def read_states(spark: SparkSession, folder: Path, batch: int | None = None) -> Mapping[str, bytes]:
    """Returns the stored state of each cluster after a committed batch, from Spark's state data source.

    Args:
        spark: any session.
        folder: Spark's checkpoint; its query is stopped.
        batch: None for the newest committed batch.

    Raises:
        UnreadableStateError: a file is missing or damaged.
    """
    # Spark creates the StateStoreCoordinator, which the reader needs, with the session's manager of queries.
    _ = spark.streams.active
    reader = spark.read.format("statestore").option("path", str(folder))
    if batch is not None:
        reader = reader.option("batchId", batch)
    try:
        rows = reader.load().collect()
    except (PySparkException, Py4JError) as problem:
        raise UnreadableStateError(error_cause(problem)) from problem
    groups = [unpack_states(bytes(row.value.groupState.state))[0] for row in rows]
    return {cluster: state for group in groups for cluster, state in group.items()}
