"""Checks this machine (Python, Java, Spark, checkpoint, disk) and the sinks."""

import errno
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from importlib.metadata import version
from pathlib import Path

from connectors.errors import StoreError, UsageError
from connectors.process.extras import Extra, install_command, is_absent, require
from connectors.sinks.http_request import error_text
from connectors.sinks.sink_config import SinkSection, SinkServer, url_server
from connectors.store.durable_file import is_open_to_others
from streaming.config import Config, host_port
from streaming.config.exposure import exposures, unreadable
from streaming.doctor.check_result import FAILS, OK, WARNING, CheckResult, CheckStatus, check_result
from streaming.doctor.sink_check import check_sink
from streaming.pipeline.checkpoint import Checkpoint

JAVA = 17
"""The oldest Java that Spark 4 supports."""
FAILING_FREE_BYTES, WARNING_FREE_BYTES = 1 << 30, 5 << 30
"""Free disk space: the journal keeps some gigabytes, and a full disk stops the job."""
MACHINE, SINKS = "machine", "sinks"
_HEARTBEAT_FIX = (
    "correct heartbeat.url, or permit connections from this machine to it: without heartbeats its service alarms"
)
_OTLP_FIX = "correct otlp.url, or permit connections from this machine to it: metrics do not reach it by OTLP"
_SINK_FIX = "correct the address, or permit connections from this machine to it: alerts do not reach this sink"


def check_host(config: Config) -> Iterator[CheckResult]:
    """Yields whether the job can run on this machine, if what it needs is installed at all."""
    yield _result("python", "version", OK, f"{platform.python_version()} at {sys.executable}")
    if is_absent(Extra.JOB):
        message = f"not installed here, nor needed by on-call commands and relays; it needs a JDK {JAVA}, and Spark"
        yield _result("job", "extra", OK, message, install_command(Extra.JOB))
        return
    yield _java()
    yield _spark()
    yield from _checkpoint(job_checkpoint(config), config.pipeline.partitions)
    yield from _listen(config)


def job_checkpoint(config: Config) -> Checkpoint:
    """Returns the checkpoint of a job."""
    return Checkpoint(folder=config.folder.absolute(), uri=config.spark_uri, store=config.server)


def recorded_ids(config: Config) -> Mapping[str, str]:
    """Returns the cluster ids in the checkpoint by cluster name; empty if it cannot be read."""
    try:
        return job_checkpoint(config).cluster_ids()
    except (UsageError, StoreError):
        return {}


def check_sinks(config: Config) -> Iterator[CheckResult]:
    """Yields whether the files of the sinks can be read, and each sink can be opened and reached; sends nothing."""
    for sentence in unreadable(config):
        subject, _, message = sentence.partition(": ")
        yield check_result(SINKS, subject, "file", FAILS, message)
    for entry in config.sinks:
        one = check_sink(entry.section, config.links)
        status = OK if one.problem is None else FAILS
        message = one.problem or "can be opened; `kraftwatch config check FILE --send-test` sends a test"
        yield check_result(SINKS, one.name, "sink", status, message)
        if one.problem is None:
            yield from _connections(entry.section, one.name)


def check_heartbeat(config: Config) -> Iterator[CheckResult]:
    """Yields whether the server of the heartbeat's URL can be reached, without a request: that would be a heartbeat."""
    if config.heartbeat is None:
        return
    try:
        server = url_server(config.heartbeat.schedule().url)
    except UsageError as error:
        yield _result("heartbeat", "url", FAILS, str(error), "correct heartbeat.url")
        return
    yield _reached(MACHINE, "heartbeat", server, server.problem(), FAILS, _HEARTBEAT_FIX)


def check_otlp(config: Config) -> Iterator[CheckResult]:
    """Yields whether the receiver of OTLP can be reached; `check_sinks` reports what is wrong with its keys."""
    target = config.otlp_target()
    if target is None:
        return
    try:
        server = url_server(target.url, target.ca_file)
    except UsageError:
        return
    yield _reached(MACHINE, "otlp", server, server.problem(), WARNING, _OTLP_FIX)


def _connections(section: SinkSection, name: str) -> Iterator[CheckResult]:
    """Yields whether each server of the sink can be reached; one broker is enough for a topic."""
    found = [(server, server.problem()) for server in section.servers()]
    failed = FAILS if all(problem is not None for _, problem in found) else WARNING
    for server, problem in found:
        yield _reached(SINKS, name, server, problem, failed, _SINK_FIX)


def _reached(
    scope: str, subject: str, server: SinkServer, problem: str | None, failed: CheckStatus, fix: str
) -> CheckResult:
    if problem is not None:
        return check_result(scope, subject, "connection", failed, f"{server}: {problem}", fix)
    reached = "TCP and TLS" if server.tls else "TCP"
    return check_result(scope, subject, "connection", OK, f"{server}: {reached}")


def check_exposure(config: Config, file: Path | None) -> Iterator[CheckResult]:
    """Yields a warning for each file with a secret that others can read, `file` too, and for an open page."""
    for sentence in exposures(config, file):
        subject, _, message = sentence.partition(": ")
        message, _, fix = message.rpartition(": ")
        yield _result(subject, "exposure", WARNING, message, fix)


_result = partial(check_result, MACHINE)


def _spark() -> CheckResult:
    try:
        require(Extra.JOB, "the job")
    except UsageError as problem:
        message, _, fix = str(problem).partition(": ")
        return _result("spark", "version", FAILS, message, fix)
    return _result("spark", "version", OK, f"pyspark {version('pyspark')}")


def _java() -> CheckResult:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    fix = f"install a JDK {JAVA} or newer, and set JAVA_HOME to it"
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return _result("java", "version", FAILS, f"{java} does not run", fix)
    found = re.search(r'version "((?:1\.)?(\d{1,9})[^"]*)"', output)
    number = found[1] if found else "of unknown version"
    if found is None or int(found[2]) < JAVA:
        return _result("java", "version", FAILS, f"{number} at {java}: Spark needs {JAVA} or newer", fix)
    return _result("java", "version", OK, f"{number} at {java}")


def _listen(config: Config) -> Iterator[CheckResult]:
    """Yields whether the page's address can be bound."""
    if config.listen is None:
        return
    error = _bind_problem(*host_port(config.listen))
    if error is None:
        yield _result("listen", "address", OK, f"{config.listen} can be bound")
    elif error.errno != errno.EADDRINUSE:
        message = f"{config.listen} cannot be bound: {error_text(error)}"
        fix = "set listen to an address of this machine; a port below 1024 needs a privilege"
        yield _result("listen", "address", FAILS, message, fix)
    elif held := job_checkpoint(config).is_held():
        message = f"{config.listen} is in use, and so is the checkpoint: the job is running"
        yield _result("listen", "address", OK, message)
    elif held is None:
        message = f"{config.listen} is in use, by the job or another process: the checkpoint is closed to this user"
        yield _result("listen", "address", WARNING, message, "run as the job's user")
    else:
        message = f"{config.listen} is used by another process"
        yield _result("listen", "address", FAILS, message, "stop that process, or set another port in listen")


def _bind_problem(host: str, port: int) -> OSError | None:
    """Binds an address to listen at, and closes it again; returns why it cannot be bound."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with closing(socket.create_server((host, port), family=family)):
            return None
    except OSError as error:
        return error


def _checkpoint(checkpoint: Checkpoint, partitions: int) -> Iterator[CheckResult]:
    folder = checkpoint.folder
    subject = str(folder)
    # Not Path.exists, which raises in a folder that this user may not enter.
    existing = next(path for path in (folder, *folder.parents) if os.path.exists(path))  # noqa: PTH110
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        message = f"{existing} is not writable for this user"
        yield _result(subject, "checkpoint", FAILS, message, "run as the job's user, or use another --checkpoint")
        return
    try:
        known = ", ".join(checkpoint.cluster_ids())
        if folder.exists():
            checkpoint.check_observations()
            if checkpoint.store is None:
                checkpoint.check_database()
    except (UsageError, StoreError) as problem:
        yield _result(subject, "checkpoint", FAILS, str(problem))
        return
    yield _result(subject, "checkpoint", OK, f"belongs to {known}" if known else "new")
    if folder.exists() and (why := checkpoint.why_no_state(partitions)) is not None:
        message = f"Spark's state will be set aside at the start and built again: {why}"
        yield _result(subject, "state", WARNING, message)
    if folder.exists() and is_open_to_others(folder):
        message = "other users have access to it; the job denies it at its start if it owns the folder"
        yield _result(subject, "exposure", WARNING, message, f"chmod 700 {folder}")
    free = shutil.disk_usage(existing).free
    status = FAILS if free < FAILING_FREE_BYTES else WARNING if free < WARNING_FREE_BYTES else OK
    remedy = () if status is OK else ("free disk space: a full disk stops the job",)
    yield _result(subject, "disk", status, f"{free / (1 << 30):.1f} GiB are free; the journal needs some GiB", *remedy)
