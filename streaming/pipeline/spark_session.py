"""The Spark session: the settings that make one small stateful query quick, quiet and small.

Each setting carries its reason; `make bench` measures what they come to.
"""

import logging
import os
import re
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import UsageError

log = logging.getLogger(__name__)

SETTINGS: Mapping[str, str] = {
    "spark.app.name": "kraftwatch",
    # One partition holds one cluster's state well; the number is fixed for the checkpoint's life.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Adaptive plans cost planning time in every batch and change nothing for one partition.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Time is in the rows: a batch without rows has nothing to say.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.driver.memory": "512m",
    "spark.cleaner.periodicGC.interval": "10min",
}
LOCAL_SETTINGS: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Hadoop's local files each bring a .crc file and two forks of chmod: a quarter of the JVM's cost when idle.
    # Offsets, commits and the state's changes are written whole and renamed without it just the same. Not so by
    # fs.file.impl: with that the state's snapshots fail, each time in the background, and without a snapshot no change
    # of the state is ever deleted.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""Where all of it runs in the driver's own Java."""
JAVA_OPTIONS = (
    # Spark's recursive pattern over a long Py4J error overflows the default stack.
    "-Xss16m",
    # Spark would live on without the thread that found no memory, and wait for it for ever: nobody starts that again.
    "-XX:+ExitOnOutOfMemoryError",
    # What Java says as it ends belongs to its other errors, not between the alerts.
    "-XX:+DisplayVMOutputToStderr",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:MaxMetaspaceSize=256m",
    # The heap in use is small and steady: give back what start-up needed.
    "-Xmn64m",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=25",
)
EXECUTOR_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The work of a batch is Python's: an executor should start soon and stay small."""
_TELLING = re.compile(r"(Error|Exception)\b")
PACKAGES = ("rules", "connectors", "streaming", "deploy")


def session(*, master: str, logs: Path, settings: Mapping[str, str]) -> SparkSession:
    """A session for the job. `settings` from the configuration win over ours.

    On a master that is not local our packages travel with the job, because executors on other machines
    have the locked dependencies but need not have us.

    Raises:
        UsageError: there is no Java, the master cannot be had, or a setting cannot be.
    """
    _require_java()
    logs.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    archive = None if master.startswith("local") else packages_archive(logs)
    options = [
        *JAVA_OPTIONS,
        f"-Djava.io.tmpdir={emptied(logs / 'tmp')}",
        f"-Dkraftwatch.log={logs / 'spark.log'}",
        f"-Dlog4j2.configurationFile={_log4j2(logs)}",
    ]
    chosen = {**SETTINGS, "spark.driver.extraJavaOptions": " ".join(map(java_option, options))}
    if archive is None:
        chosen.update(LOCAL_SETTINGS)
    else:
        # The planner beside the driver and the executors' workers unpickle us before Spark's files are on their
        # path: the planner finds the archive where we wrote it, an executor in its own working directory.
        chosen["spark.executorEnv.PYTHONPATH"] = f"{archive}:{archive.name}"
        chosen["spark.executor.extraJavaOptions"] = " ".join(EXECUTOR_JAVA_OPTIONS)
    chosen.update(settings)
    builder = SparkSession.builder.master(master)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    errors = logs / "spark.err"
    said_before = errors.stat().st_size if errors.exists() else 0
    try:
        with _stderr_to(errors):
            spark: SparkSession = builder.getOrCreate()
            if archive is None:
                _write_no_checksums(spark)
            else:
                # Not by spark.submit.pyFiles: under spark-submit Java runs already and would not read it.
                spark.sparkContext.addPyFile(str(archive))
    except (PySparkException, Py4JError, OSError) as problem:
        why = _why(problem, errors, said_before)
        raise UsageError(f"Spark does not start on --master {master}: {why}; more is in {logs}") from problem
    # When a whole group is told to stop, Java may be gone first: no traceback of that between the alerts.
    AccumulatorTCPServer.handle_error = _hung_up  # type: ignore[method-assign, assignment]  # no other place to say so
    return spark


def _write_no_checksums(spark: SparkSession) -> None:
    """The snapshots of the state come with a .crc file each, and are deleted by the way that knows of none."""
    context = spark.sparkContext
    assert context._jvm is not None
    # Java's one object for local files; there is no setting for it.
    context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _hung_up(server: AccumulatorTCPServer, request: object, client_address: object) -> None:
    log.debug("the connection that Spark counts by was closed")


def emptied(folder: Path) -> Path:
    """The folder, with nothing in it: for what Java unpacks, and leaves behind when it is killed.

    The native libraries of RocksDB, lz4 and zstd alone are some 20 MB each time. Whoever asks holds the checkpoint, so
    what lies there is nobody's any more.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def java_option(option: str) -> str:
    """One option as Spark splits a list of them: what holds a space or a quote is quoted."""
    if not set(option) & set(" \t'\"\\"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(Path(home) / "bin" / "java", os.X_OK):
        raise UsageError(
            f"Spark needs Java: JAVA_HOME is {home}, and there is no bin/java in it; install a JDK 17 or newer, and "
            "let JAVA_HOME name it"
        )
    if not home and shutil.which("java") is None:
        raise UsageError("Spark needs Java, and there is no java on the PATH: install a JDK 17 or newer")


def _why(problem: Exception, errors: Path, said_before: int) -> str:
    """The one line that says most: of what Java wrote when it died at once, else of the error that it raised."""
    if isinstance(problem, Py4JError):
        said = str(problem).splitlines()
        if any("stopped SparkContext" in line for line in said):
            return "no Spark master accepted us there within a minute"
    else:
        with errors.open("rb") as file:
            file.seek(said_before)
            said = file.read().decode(errors="replace").splitlines()
    said = [line.strip() for line in said if line.strip() and not line.lstrip().startswith("at ")]
    telling = [line for line in said if _TELLING.search(line)] or said or [type(problem).__name__]
    # A cause comes behind what it caused.
    return telling[-1][:300]


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What is started inside keeps `path` as its stderr for life: Java's and the workers' words go to a file.

    A terminal is for alerts; Java warns there about modules that Spark itself asked for.
    """
    sys.stderr.flush()
    ours = os.dup(2)
    with path.open("ab") as theirs:
        os.dup2(theirs.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _log4j2(logs: Path) -> Path:
    """Spark's log configuration as a file: Java cannot read it out of a wheel."""
    path = logs / "log4j2.properties"
    path.write_bytes(files("streaming.pipeline").joinpath("log4j2.properties").read_bytes())
    return path


def packages_archive(folder: Path) -> Path:
    """Our packages as a zip that Python imports from, written whole or not at all."""
    target = folder / "kraftwatch-packages.zip"
    temporary = target.with_suffix(f".{os.getpid()}")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for package in PACKAGES:
            root = Path(str(files(package)))
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    archive.write(path, Path(package) / path.relative_to(root))
    temporary.replace(target)
    return target
