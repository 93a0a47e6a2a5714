"""Whether executors and driver share the checkpoint's folder: otherwise the state lies on an executor's own disk.

Spark does not notice it: batches complete until that executor is lost, and its state with it.
"""

import socket
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from connectors.errors import UsageError


class _Written(NamedTuple):
    """What an executor did: `failure` is empty if it wrote the file."""

    file: str
    host: str
    failure: str


def require_shared_folder(spark: SparkSession, folder: Path) -> None:
    """Lets the executors that have registered write files, which the driver reads. Waits for the first executor.

    An executor that joins later is not checked.

    Args:
        spark: its master is not local.
        folder: an empty folder in the checkpoint.

    Raises:
        UsageError: an executor cannot write there, or what it writes is not in the driver's folder.
    """
    context = spark.sparkContext
    tasks = context.defaultParallelism
    for written in context.parallelize(range(tasks), tasks).map(partial(_write, str(folder))).collect():
        path = Path(written.file)
        failure = written.failure or ("" if path.is_file() else "what it writes there is not in the driver's folder")
        path.unlink(missing_ok=True)
        if failure:
            raise UsageError(
                f"checkpoint: the executor on {written.host} does not share {folder} with the driver ({failure}); "
                "mount one folder at the same path on every node of the Spark cluster and give it as the checkpoint"
            )


def _write(folder: str, number: int) -> _Written:
    """Writes one file, on an executor."""
    path, failure = Path(folder, f"executor-{number}"), ""
    try:
        path.write_bytes(b"")
    except OSError as problem:
        failure = (problem.strerror or "it cannot be written").lower()
    return _Written(str(path), socket.gethostname(), failure)
