"""A folder that Spark reaches through Hadoop's file systems: HDFS, object stores, and those of the user's own jars."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from connectors.errors import KraftwatchError, UsageError
from streaming.pipeline.spark.errors import JobError, error_cause
from streaming.pipeline.spark.internals import hadoop_settings, java_of
from streaming.pipeline.spark.spark_files import Folder

_T = TypeVar("_T")
_NO_CLASS = re.compile(
    r"No FileSystem for scheme|(?:ClassNotFoundException: (?:Class )?|NoClassDefFoundError: )([\w.$/]{1,200})"
)
"""In Java's error when a file system, or a class that it needs, is in none of the jars."""
_AZURE = "add org.apache.hadoop:hadoop-azure, of Spark's version of Hadoop, and its dependencies to spark.jars"
_S3A = (
    "add org.apache.hadoop:hadoop-aws, of Spark's version of Hadoop, and Amazon's SDK to spark.jars: "
    "`python -m deploy.lab.spark_jars s3a FOLDER` downloads them"
)
_JARS = {
    "s3a": _S3A,
    # Hadoop has no such file system any more; Amazon's EMR has one.
    "s3": "write s3a:// instead of s3://, Hadoop's name of S3, and " + _S3A,
    "gs": (
        "add org.apache.hadoop:hadoop-gcp, of Spark's version of Hadoop, and its dependencies to spark.jars; or "
        "com.google.cloud.bigdataoss:gcs-connector (the shaded jar), with spark.hadoop.fs.gs.impl set to "
        "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
    ),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), _AZURE),
}
"""By scheme: where its jars are."""


class HadoopFolder(Folder):
    """Every method raises UsageError if a jar is missing, JobError if the access is denied or nothing answers.

    A supervisor must start the job again after a JobError: the file system may answer later.
    """

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._uri = uri
        self._java, self._conf = java_of(spark), hadoop_settings(spark)

    @property
    def place(self) -> str:
        """The folder's URI."""
        return self._uri

    def names(self, folder: str) -> Sequence[str]:
        """As `Folder.names`."""

        def listed(files: Any, path: Any) -> Sequence[str]:
            return [listStatu.getPath().getName() for listStatu in files.listStatus(path)]

        try:
            return self._with_path(folder, listed)
        except FileNotFoundError:
            return ()

    def text(self, file: str) -> str:
        """As `Folder.text`; for small files."""

        def read(files: Any, path: Any) -> bytes:
            stream = files.open(path)
            try:
                return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream))
            finally:
                stream.close()

        return self._with_path(file, read).decode()

    def move(self, to: str) -> None:
        """Gives the folder another name beside itself, in place of what has that name."""

        def moved(files: Any, path: Any) -> bool:
            target = self._java.org.apache.hadoop.fs.Path(path.getParent(), to)
            files.delete(target, True)  # noqa: FBT003 - Java's method has no names
            return bool(files.rename(path, target))

        if not self._with_path("", moved):
            raise JobError(f"checkpoint {self.place} cannot be renamed to {to}: move it away yourself")

    def _with_path(self, name: str, act: Callable[[Any, Any], _T]) -> _T:
        try:
            path = self._java.org.apache.hadoop.fs.Path(f"{self.place}/{name}" if name else self.place)
            return act(path.getFileSystem(self._conf), path)
        except Py4JJavaError as problem:
            if problem.java_exception.getClass().getName() == "java.io.FileNotFoundException":
                raise FileNotFoundError(f"{self.place}/{name} does not exist") from None
            raise self._unusable(problem) from None
        except (Py4JError, ConnectionError) as problem:
            raise self._unusable(problem) from None

    def _unusable(self, problem: Exception) -> KraftwatchError:
        lacking = missing_file_system(self.place, problem)
        if lacking is not None:
            return UsageError(f"checkpoint {self.place}: {lacking}")
        return JobError(f"checkpoint {self.place}: Spark cannot use it: {error_cause(problem)}")


def missing_file_system(uri: str, problem: Exception) -> str | None:
    """Returns what Spark lacks to read a URI, and where to get it, as a sentence; None for any other problem."""
    found = _NO_CLASS.search(str(problem))
    if found is None:
        return None
    scheme = uri.partition(":")[0].lower()
    advice = _JARS.get(scheme, "add the jars of that file system to spark.jars and set spark.hadoop.fs.{scheme}.impl")
    lacks = f": it lacks the class {found[1].replace('/', '.')}" if found[1] else ""
    return (
        f"Spark does not know the file system of the scheme {scheme}{lacks}; {advice.format(scheme=scheme)}; see "
        "docs/spark.md#checkpoint-in-hdfs-or-s3"
    )
