"""Spark's own standalone cluster out of pyspark's jars: a master and workers, each a process of its own."""

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
def standalone(folder: Path, *, workers: int) -> Iterator[str]:
    """Yields spark://HOST:PORT once all workers are registered; ends every process."""
    folder.mkdir()
    ports = Ports()
    port, page = ports.claim(), ports.claim()
    with ExitStack() as stack:
        master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
        log = start(stack, folder / "master", [*master, "--webui-port", str(page)])
        url = f"spark://127.0.0.1:{port}"
        eventually(lambda: says(log, "I have been elected leader"), within_s=60)
        for number in range(workers):
            worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
            place = folder / f"worker-{number}"
            start(stack, place, [*worker, "--webui-port", str(ports.claim()), "--work-dir", str(place), url])
        eventually(lambda: says(log, "Registering worker", times=workers), within_s=60)
        yield url


def start(stack: ExitStack, place: Path, command: list[str]) -> Path:
    place.mkdir()
    log = place / "log"
    java = ["java", "-Xmx256m", "-cp", f"{HOME}/jars/*", *command]
    # Without a `jars` folder of a distribution's shape Spark asks for the Scala version to find its own jars.
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13"}
    with log.open("wb") as output:
        process = subprocess.Popen(java, cwd=place, stdout=output, stderr=output, env=environment)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return log


def says(log: Path, words: str, *, times: int = 1) -> None:
    text = log.read_text(errors="replace")
    assert text.count(words) >= times, text[-2000:]
