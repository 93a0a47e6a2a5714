"""A standalone cluster of Spark from pyspark's jars: a master and workers, one process each."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark

from deploy.lab.ports import Ports
from tests.eventually import eventually

HOME = Path(pyspark.__file__).parent


@contextlib.contextmanager
def standalone_cluster(folder: Path, *, workers: int) -> Iterator[str]:
    """Yields spark://HOST:PORT when all workers are registered; kills every process at the end."""
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
            start_java(stack, work, [*worker, "--webui-port", str(ports.claim()), "--work-dir", str(work), url])
        eventually(lambda: assert_logged(log, "Registering worker", times=workers), within_s=60)
        yield url


def start_java(stack: ExitStack, folder: Path, command: list[str]) -> Path:
    """Starts a Java class in a new folder until the stack closes; returns its log file."""
    folder.mkdir()
    log = folder / "log"
    java = ["java", "-Xmx256m", "-cp", f"{HOME}/jars/*", *command]
    # pyspark has no folder of the layout of a distribution: without the Scala version Spark does not find its jars.
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    with log.open("wb") as output:
        process = subprocess.Popen(java, cwd=folder, stdout=output, stderr=output, env=environment)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return log


def assert_logged(log: Path, text: str, *, times: int = 1) -> None:
    logged = log.read_text(errors="replace")
    assert logged.count(text) >= times, logged[-2000:]
