"""The processes of a job, and whether it works."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psutil

from tests.job.configured_job import ConfiguredJob


def processes(job: ConfiguredJob, wanted: Callable[[Sequence[str]], bool]) -> list[psutil.Process]:
    """Returns the job's processes by their command."""
    driver = psutil.Process(job.pid)
    found = list[psutil.Process]()
    for process in (driver, *driver.children(recursive=True)):
        with suppress(psutil.ZombieProcess, psutil.NoSuchProcess):  # it has ended meanwhile
            # That of a process that has just ended is empty.
            if (command := process.cmdline()) and wanted(command):
                found.append(process)
    return found


def resume_if_running(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.resume()


def is_java(command: Sequence[str]) -> bool:
    return command[0].endswith("/java")


def is_driver(command: Sequence[str]) -> bool:
    return "run" in command and "streaming" in command


def is_python_of_spark(command: Sequence[str]) -> bool:
    return "pyspark.worker" in command or "streaming.pipeline.spark.planner_connection" in command


def is_gatherer(command: Sequence[str]) -> bool:
    return "connectors.gather" in command


def health(job: ConfiguredJob) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://{job.address}/healthz", timeout=10) as answer:
            return dict(json.loads(answer.read()))
    except (urllib.error.URLError, ConnectionError, TimeoutError) as problem:
        raise AssertionError(str(problem)) from None


def assert_works(job: ConfiguredJob) -> None:
    now = health(job)
    assert (now["status"], now["engine"], now["seconds_since_last_batch"] < 12) == ("ok", "spark", True), now


def assert_counts(job: ConfiguredJob, name: str) -> None:
    """Asserts that this engine evaluates."""
    now = health(job)
    assert (now["engine"], now["seconds_since_last_evaluation"] < 20) == (name, True), now
