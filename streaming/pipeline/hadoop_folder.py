"""A folder that Spark reaches through Hadoop's file systems: HDFS, object stores, and those of the user's own jars."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from connectors.errors import UsageError
from streaming.pipeline.query import error_cause
from streaming.pipeline.spark_files import Folder

_T = TypeVar("_T")


class HadoopFolder(Folder):
    """Every method raises UsageError if a jar or a setting is missing, the access is denied, or nothing answers."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        context = spark.sparkContext
        assert context._jvm is not None
        self._uri = uri
        self._java: Any = context._jvm
        self._conf: Any = context._jsc.hadoopConfiguration()

    @property
    def place(self) -> str:
        """Its URI."""
        return self._uri

    def names(self, folder: str) -> Sequence[str]:
        """As `Folder.names`."""

        def listed(files: Any, path: Any) -> Sequence[str]:
            return [one.getPath().getName() for one in files.listStatus(path)]

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
            raise UsageError(f"checkpoint {self.place} cannot be renamed to {to}: move it away yourself")

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

    def _unusable(self, problem: Exception) -> UsageError:
        return UsageError(f"checkpoint {self.place}: Spark cannot read it: {error_cause(problem)}")
