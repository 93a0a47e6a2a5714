"""The Spark session, with settings for one small stateful query: low latency, low idle cost, little memory.

A comment gives the reason of each setting; `make bench` measures their effect.
"""

import logging
import os
import re
import shlex
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from socketserver import BaseServer

import pyspark
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.conf import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.errors import ProcessEndedError, UsageError
from connectors.settings.secret import redact
from streaming.pipeline.spark.errors import PassingError
from streaming.pipeline.spark.internals import hadoop_settings, has_java, java_of, launch_java
from streaming.pipeline.spark.planner_connection import AUTH_TIMEOUT, write_python

log = logging.getLogger(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"
SETTINGS: Mapping[str, str] = {
    "spark.app.name": "kraftwatch",
    # The configuration's pipeline.partitions replaces it.
    _PARTITIONS: "1",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Adaptive planning takes time in every batch and changes nothing here.
    "spark.sql.adaptive.enabled": "false",
    # The generated code of such small plans takes longer to compile than it ever saves.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.session.timeZone": "UTC",
    # Time is in the rows: a batch without rows would change nothing.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "20",
    "spark.sql.streaming.minBatchesToRetain": "20",
    # A file of checksums for each file of a state: HDFS and object stores keep their own.
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.cleaner.periodicGC.interval": "10min",
    # Hadoop sets the mode of each file and folder itself and ignores the umask of the process.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    **AUTH_TIMEOUT,
}
LOCAL_SETTINGS: Mapping[str, str] = {
    # Spark removes an executor that it has not heard of for two minutes, by the wall clock: on a host that was stopped
    # the only one. It runs in the driver's Java and cannot be lost; without it no task runs any more.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "3650d",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # For each local file Hadoop writes a .crc file and forks chmod twice: a quarter of the JVM's CPU time when idle.
    # Offsets, commits and state changes are still written completely and then renamed. Setting fs.file.impl instead
    # makes the state's snapshots fail in the background, and without a snapshot no state change is ever deleted.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""Settings of a local master, where everything runs in the driver's Java process."""
LOCAL_FILES: Mapping[str, str] = {
    # The default file manager forks readlink four times for each file that it renames: 12 processes in every batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings of a local master whose checkpoint is in local files."""
JAVA_OPTIONS = (
    # Spark parses long Py4J errors with a recursive regular expression that overflows the default stack.
    "-Xss16m",
    # Without it, Spark would continue without the thread that ran out of memory and wait for that thread forever.
    "-XX:+ExitOnOutOfMemoryError",
    # Java's last messages go to its error log, not to the terminal that shows alerts.
    "-XX:+DisplayVMOutputToStderr",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    # By default the heap begins with 1/64 of the machine's memory, however little is used.
    "-Xms128m",
    "-XX:ReservedCodeCacheSize=96m",
    "-XX:MaxMetaspaceSize=256m",
    # The heap in use is small and steady: memory that start-up needed is returned to the system.
    "-Xmn64m",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=25",
)
CLASS_ARCHIVES = Path(sys.prefix) / "share" / "kraftwatch"
"""The folder with the classes that Spark's Java loads in a job, as `class_archive` has written them."""
# Without a word on an archive that is of another Java or of other jars: Java ignores it.
_QUIET_ABOUT_CLASSES = ("-Xlog:disable", "-Xlog:all=error:stderr")
_SOCKET_FOLDER_MAX = 61
"""Bytes of the path of a folder for Unix sockets: Spark refuses a longer one, although Linux allows two more."""
EXECUTOR_JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Python does the work of a batch, so an executor should start fast and stay small."""
_ERROR_LINE = re.compile(r"(Error|Exception)\b")
_NOT_ACCEPTED = "no Spark master accepted the job there within a minute"
_LACKS = re.compile(
    "insufficient memory|[Cc]annot allocate memory|Could not (allocate|reserve)|OutOfMemoryError|No space left"
    "|Too many open files|unable to create (new )?native thread"
)
"""In the reason that Java gives: the machine lacks something now."""
PACKAGES = ("rules", "connectors", "streaming", "deploy")


def start_spark(
    *,
    master: str,
    logs: Path,
    settings: Mapping[str, str],
    local_files: bool = True,
    written_archive: Path | None = None,
) -> SparkSession:
    """Returns a session for the job. `settings` from the configuration override the defaults.

    `local_files` says whether the checkpoint is in local files. Java writes `written_archive` when it ends; without it,
    Java reads the archive in `CLASS_ARCHIVES`, if there is one.

    With a master that is not local, the project's packages are sent with the job: executors on other machines have the
    locked dependencies, but not necessarily kraftwatch itself.

    Raises UsageError if Java is missing or a setting is invalid, PassingError if no master accepts the job or the
    machine lacks what Java needs, ProcessEndedError if Java was killed while it started.
    """
    _require_java()
    logs.mkdir(parents=True, exist_ok=True)
    _set_environment()
    archive = None if master.startswith("local") else packages_archive(logs)
    temporary = empty_folder(logs / "tmp")
    options = [
        *JAVA_OPTIONS,
        *_class_options(written_archive),
        f"-Djava.io.tmpdir={temporary}",
        f"-Dkraftwatch.log={logs / 'spark.log'}",
        f"-Dlog4j2.configurationFile={_log4j2(logs)}",
    ]
    chosen = {**SETTINGS, "spark.driver.extraJavaOptions": " ".join(map(java_option, options))}
    if archive is None:
        chosen["spark.driver.extraClassPath"] = _class_path()
        chosen.update({**LOCAL_SETTINGS, **(LOCAL_FILES if local_files else {}), **socket_settings(temporary)})
    else:
        # The planner and the executors' workers unpickle our classes before Spark's files are on their path: the
        # planner finds the archive by its full path, an executor in its working directory.
        chosen["spark.executorEnv.PYTHONPATH"] = f"{archive}:{archive.name}"
        chosen["spark.executor.extraJavaOptions"] = " ".join(EXECUTOR_JAVA_OPTIONS)
        # spark-submit has set it before this process started (--total-executor-cores).
        if master.startswith("spark://") and "PYSPARK_GATEWAY_PORT" not in os.environ:
            # A standalone cluster gives its cores to the first job, and a second one, its standby, would get none.
            chosen["spark.cores.max"] = settings.get(_PARTITIONS, SETTINGS[_PARTITIONS])
    errors = logs / "spark.err"
    size_before = errors.stat().st_size if errors.exists() else 0
    try:
        with (
            errors.open("ab") as output,
            _python_for_spark(None if archive is not None else temporary),
            _settings_for_java(settings, temporary) as other_settings,
        ):
            defaults = {key: value for key, value in chosen.items() if key not in settings}
            conf = SparkConf().setMaster(master).setAll([*{**defaults, **other_settings}.items()])
            # What it prints would otherwise stand between the alerts on the terminal.
            launch_java(conf, output)
            spark: SparkSession = SparkSession.builder.config(conf=conf).getOrCreate()
            if archive is None:
                _write_no_checksums(spark)
            else:
                # spark.submit.pyFiles has no effect: under spark-submit Java is already running and does not read it.
                spark.sparkContext.addPyFile(str(archive))
    except (PySparkException, Py4JError, OSError) as problem:
        reason = _reason(problem, errors, size_before)
        if reason is None:
            raise ProcessEndedError(
                "Java ended while Spark started and gave no reason, as if it had been killed (for lack of memory, for "
                f"example): start kraftwatch again; see {logs}"
            ) from problem
        kind = PassingError if reason == _NOT_ACCEPTED or _LACKS.search(reason) else UsageError
        raise kind(f"Spark does not start on --master {master}: {reason}; see {logs}") from problem
    # A signal to the process group may end Java first: no traceback of that on the terminal that shows alerts.
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _connection_closed  # type: ignore[method-assign, assignment]  # there is no setting
    return spark


def socket_settings(folder: Path) -> dict[str, str]:
    """Returns the settings with which Python workers connect to Java by Unix sockets in this folder of the user's own.

    On a TCP connection, Java's small writes wait 40 ms in each stage for the delayed acknowledgement of the one before.
    Returns no settings if the path of a socket in the folder would be too long: the connections are TCP then.
    """
    if len(os.fsencode(folder.absolute())) > _SOCKET_FOLDER_MAX:
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder.absolute()),
    }


@contextmanager
def _python_for_spark(folder: Path | None) -> Iterator[None]:
    """Lets the Spark that starts inside start its Python by the script of `planner_connection`, written to a folder.

    None: executors on other machines have no such script, and Spark starts their Python by the same path.
    """
    python = os.environ["PYSPARK_PYTHON"]
    if folder is not None:
        os.environ["PYSPARK_PYTHON"] = str(write_python(folder, python))
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = python


@contextmanager
def _settings_for_java(settings: Mapping[str, str], folder: Path) -> Iterator[Mapping[str, str]]:
    """Gives the configuration's settings to the Java process that starts inside; returns those that it does not get.

    They may be secret, such as the keys of an object store: pyspark would put them on Java's command line, which every
    user of the machine can read. A Java that runs already, as under spark-submit, gets them from the session.
    """
    if not settings or has_java() or "PYSPARK_GATEWAY_PORT" in os.environ:
        yield settings
        return
    file = folder / "settings.properties"
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as lines:
        lines.writelines(f"{_property(key)}={_property(value)}\n" for key, value in settings.items())
    before = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--load-spark-defaults --properties-file {shlex.quote(str(file))} {before}"
    try:
        yield {}
    finally:
        os.environ["PYSPARK_SUBMIT_ARGS"] = before
        file.unlink(missing_ok=True)


def _property(text: str) -> str:
    """Returns a key or a value as a line of a Java properties file spells it (java.util.Properties)."""
    return re.sub(r"[^\w./@,;+*-]", lambda found: f"\\u{ord(found[0]):04x}", text, flags=re.ASCII)


def _write_no_checksums(spark: SparkSession) -> None:
    """Turns off .crc files for the state's snapshots: Spark deletes the snapshots without them."""
    # The JVM's only object for local files; there is no setting for it.
    java_of(spark).org.apache.hadoop.fs.FileSystem.getLocal(hadoop_settings(spark)).setWriteChecksum(False)


def _connection_closed(server: BaseServer, request: object, client_address: object) -> None:
    log.debug("the connection to Spark's accumulator server was closed")


def empty_folder(folder: Path) -> Path:
    """Returns the folder, created and emptied: for files that Java unpacks and leaves behind when it is killed.

    The native libraries of RocksDB, lz4 and zstd alone take about 20 MB at each start. The caller holds the lock of the
    checkpoint, so no other process uses these files.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def java_option(option: str) -> str:
    """Returns one option as Spark splits a list of options: quoted where it contains a space or a quote."""
    if not set(option) & set(" \t'\"\\"):
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _class_options(written: Path | None) -> Sequence[str]:
    if written is not None:
        return (f"-XX:ArchiveClassesAtExit={written}", *_QUIET_ABOUT_CLASSES)
    # The name is the size, because Java crashes on an archive that was cut off.
    found = (path for path in CLASS_ARCHIVES.glob("*.jsa") if path.stem == str(path.stat().st_size))
    return [option for path in found for option in (f"-XX:SharedArchiveFile={path}", *_QUIET_ABOUT_CLASSES)]


def _class_path() -> str:
    """Returns Spark's jars in the order of their names.

    Java would take them in the order of the folder, which differs between machines that run the same image, and then
    ignores the archive of their classes.
    """
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    return ":".join(sorted(map(str, Path(home, "jars").glob("*.jar"))))


def _set_environment() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # What Java's native libraries use stays the same, but glibc keeps what 300 threads free in 16 arenas, which grow
    # with each batch.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")


def _require_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and not os.access(Path(home) / "bin" / "java", os.X_OK):
        raise UsageError(
            f"Spark needs Java: JAVA_HOME is {home}, which has no bin/java; install a JDK 17 or newer and set "
            "JAVA_HOME to it"
        )
    if not home and shutil.which("java") is None:
        raise UsageError("Spark needs Java, but java is not on the PATH: install a JDK 17 or newer")


def _reason(problem: Exception, errors: Path, size_before: int) -> str | None:
    """Returns the most specific line of Java's stderr, or of its error, without a secret; None if it gave none."""
    if isinstance(problem, Py4JError) and not isinstance(problem, Py4JNetworkError):
        lines = str(problem).splitlines()
        if any("stopped SparkContext" in line for line in lines):
            return _NOT_ACCEPTED
    else:
        with errors.open("rb") as file:
            file.seek(size_before)
            lines = file.read().decode(errors="replace").splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith(("at ", "WARNING:"))]
    lacks = [line for line in lines if _LACKS.search(line)]
    errors_found = lacks or [line for line in lines if _ERROR_LINE.search(line)] or lines
    # A cause follows its consequence.
    return redact(errors_found[-1])[:300] if errors_found else None


def _log4j2(logs: Path) -> Path:
    """Returns Spark's log configuration as a file: Java cannot read it from a wheel."""
    path = logs / "log4j2.properties"
    path.write_bytes(files("streaming.pipeline.spark").joinpath("log4j2.properties").read_bytes())
    return path


def packages_archive(folder: Path) -> Path:
    """Returns the project's packages as a zip that Python can import from, written atomically."""
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
