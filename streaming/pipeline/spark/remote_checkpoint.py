"""What Spark needs to know of a checkpoint that is not in local files, before a query starts on it.

An object store is paid for each request. `deploy/spark/S3CheckpointFiles.java` makes one for each file of a checkpoint
in S3 that Spark writes or deletes; it is one of the jars of S3A that `python -m deploy.lab.spark_jars s3a` collects.
"""

import logging
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streaming.pipeline.spark.internals import java_of
from streaming.pipeline.spark.spark_files import SparkFiles

log = logging.getLogger(__name__)

S3_FILES: Final = "kraftwatch.S3CheckpointFiles"
_FILE_MANAGER: Final = "spark.sql.streaming.checkpointFileManagerClass"
STATE_FORMAT: Final = "spark.sql.streaming.stateStore.checkpointFormatVersion"
"""The session's, of queries that start on a checkpoint, and of what reads its state."""
_NEW_STATE_FORMAT: Final = 2
"""Each attempt of a batch writes a state's changes under a name of its own, which the batch's commit names: a driver
that was replaced and continues can replace none of them."""


def use_remote_checkpoint(spark: SparkSession, uri: str, files: SparkFiles) -> None:
    """Sets what the next query on this checkpoint needs; a file manager in the configuration stays.

    Args:
        uri: of the checkpoint.
        files: Spark's files there.
    """
    # Spark cannot continue with another one.
    spark.conf.set(STATE_FORMAT, str(files.state_format or _NEW_STATE_FORMAT))
    if not uri.startswith("s3a:") or spark.conf.get(_FILE_MANAGER, None) is not None:
        return
    if _has_class(spark, S3_FILES):
        spark.conf.set(_FILE_MANAGER, S3_FILES)
    else:
        log.warning(
            "the jars have no %s: each batch takes eight times as many requests of S3, and longer; add the jar to "
            "spark.jars as well: see docs/spark.md#requests-of-an-object-store",
            S3_FILES,
        )


def _has_class(spark: SparkSession, name: str) -> bool:
    java = java_of(spark)
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        java.java.lang.Class.forName(name, False, loader)  # noqa: FBT003 - Java's method has no names
    except Py4JJavaError:
        return False
    return True
