"""A standalone cluster of Spark from pyspark's jars: a master and workers, one process each."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyspark

from deploy.lab.addresses import Ports
from tests.eventually import eventually

HOME = Path(pyspark.__file__).parent


@contextlib.contextmanager
def standalone_cluster(folder: Path, *, workers: int, hidden: Path | None = None) -> Iterator[str]:
    """Yields spark://HOST:PORT when all workers are registered; kills every process at the end.

    `hidden` is a folder that the workers do not see: they have an empty one there, as on a machine of their own.
    """
    folder.mkdir()
    ports = Ports()
    port, page = ports.claim(), ports.claim()
    with ExitStack() as stack:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        log = start_java(stack, folder / "master", [*master, "--webui-port", str(page)])
        url = f"spark://127.0.0.1:{port}"
        eventually(lambda: assert_logged(log, "I have been elected leader"), within_s=60)
        for number in range(workers):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            work = folder / f"worker-{number}"
            worker += ["--webui-port", str(ports.claim()), "--work-dir", str(work), url]
            start_java(stack, work, worker, around=() if hidden is None else without(hidden))
        eventually(lambda: assert_logged(log, "Registering worker", times=workers), within_s=60)
        yield url


def without(folder: Path) -> Sequence[str]:
    """Returns the command that runs another one without a folder, in a mount namespace of its own."""
    script = 'mount --make-rprivate / && mount -t tmpfs none "$0" && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, str(folder))


def start_java(
    stack: ExitStack, folder: Path, command: list[str], *, around: Sequence[str] = (), jars: str = f"{HOME}/jars/*"
) -> Path:
    """Starts a Java class in a new folder until the stack closes; returns its log file."""
    folder.mkdir()
    log = folder / "log"
    java = [*around, "java", "-Xmx256m", "-cp", jars, *command]
    # pyspark has no folder of the layout of a distribution: without the Scala version Spark does not find its jars.
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    with log.open("wb") as output:
        process = subprocess.Popen(java, cwd=folder, stdout=output, stderr=output, env=environment)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return log


def executor_processes(folder: Path) -> list[psutil.Process]:
    """Returns the running executors of the cluster in this folder; at least one."""
    found = [
        process
        for process in psutil.process_iter(["cwd", "cmdline"])
        if Path(process.info["cwd"] or "/").is_relative_to(folder)
        and any("CoarseGrainedExecutorBackend" in part for part in process.info["cmdline"] or ())
    ]
    assert found
    return found


def assert_logged(log: Path, text: str, *, times: int = 1) -> None:
    logged = log.read_text(errors="replace")
    assert logged.count(text) >= times, logged[-2000:]
