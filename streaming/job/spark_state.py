"""Spark's state with which a job cannot continue: what is wrong with it, and how a new one begins in its place.

The new state is built from the journal if that is complete, else from each cluster's metadata log, which the gatherer
reads again, or from the relay's topic. The alerts that are firing in the ledger keep firing in the new state
(`streaming.pipeline.initial_state`). The former state is kept under another name, until the next one is set aside.
"""

import shutil
from collections.abc import Mapping
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError, UsageError
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import KAFKA, checkpoint_source, record_source
from streaming.pipeline.schema import unpack_states
from streaming.pipeline.spark.errors import error_cause
from streaming.pipeline.spark.hadoop_folder import HadoopFolder
from streaming.pipeline.spark.spark_files import SparkFiles
from streaming.pipeline.stored_state import group_states

BEFORE = ".before-1"
"""Ends the name of a state that was set aside."""


class UnreadableStateError(KraftwatchError):
    """Spark cannot read its state."""


def spark_files(spark: SparkSession, checkpoint: Checkpoint) -> SparkFiles:
    """Returns Spark's files, wherever they are."""
    if checkpoint.uri is None:
        return checkpoint.spark_files
    return SparkFiles(folder=HadoopFolder(spark, checkpoint.uri))


def unreadable_state(spark: SparkSession, checkpoint: Checkpoint) -> str | None:
    """Returns why Spark cannot read its state, as a clause; None if it can, or has none. The query is stopped.

    Raises JobError if the file system does not answer, which says nothing about the state.
    """
    if not spark_files(spark, checkpoint).has_state:
        return None
    try:
        read_states(spark, checkpoint.location)
    except UnreadableStateError as problem:
        return f"Spark cannot read it: {problem}"
    return None


def read_states(spark: SparkSession, location: str) -> Mapping[str, bytes]:
    """Returns the stored state of each cluster in Spark's checkpoint, a path or URI, whose query is stopped.

    Raises UnreadableStateError if a file is missing or damaged.
    """
    try:
        groups = [unpack_states(bytes(row.state)) for row in group_states(spark, location).collect()]
    except (PySparkException, Py4JError) as problem:
        raise UnreadableStateError(error_cause(problem)) from problem
    except ValueError as problem:
        raise UnreadableStateError(str(problem)) from problem
    return {cluster: state for group in groups for cluster, state in group.items()}


def set_state_aside(checkpoint: Checkpoint, why: str, spark: SparkSession | None = None) -> str:
    """Lets Spark begin with a new state; the checkpoint is locked, and no query runs. Returns a sentence for the log.

    Args:
        why: the reason, as a clause.
        spark: reaches Spark's files, if they are elsewhere.
    """
    rows = _source_of_new_state(checkpoint)
    if checkpoint.uri is None:
        before = checkpoint.spark.with_name(f"{checkpoint.spark.name}{BEFORE}")
        shutil.rmtree(before, ignore_errors=True)
        # There is none if only its journal was left.
        if checkpoint.spark.exists():
            checkpoint.spark.rename(before)
    else:
        assert spark is not None, "Spark's files are elsewhere"
        folder = HadoopFolder(spark, checkpoint.uri)
        folder.move(f"{checkpoint.uri.rstrip('/').rpartition('/')[2]}{BEFORE}")
    return (
        f"Spark's state in {checkpoint.uri or checkpoint.spark} is set aside: {why}. It is built again from {rows}; "
        "the ledger keeps the alerts that fire"
    )


def _source_of_new_state(checkpoint: Checkpoint) -> str:
    """Returns from what a new state is built, as the object of a sentence; prepares the journal, if it is that."""
    source = checkpoint_source(checkpoint)
    if source is not None and source.kind == KAFKA:
        return "the relay's topic"
    journal = JournalReader(checkpoint.journal)
    if not journal.created or journal.complete:
        return "the journal"
    # A journal that cannot be written must not cost the state.
    with JournalWriter(checkpoint.journal) as writer:
        writer.read_logs_again()
    return "each cluster's metadata log, which is read again"


def record_spark_uri(checkpoint: Checkpoint, files: SparkFiles) -> None:
    """Records, before the first query, that the folder belongs to Spark's files elsewhere.

    Raises UsageError if a query has begun there already.
    """
    source = checkpoint_source(checkpoint)
    if source is None or source.uri == checkpoint.uri or checkpoint.uri is None:
        return
    if files.offsets:
        raise UsageError(
            f"checkpoint {checkpoint.uri} has a query's state, but {checkpoint.folder} does not belong to it: restore "
            f"the work_dir of that query, or give another place as checkpoint, which begins with each cluster's newest "
            f"baseline"
        )
    record_source(checkpoint, replace(source, uri=checkpoint.uri))
