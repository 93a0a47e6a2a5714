"""A Java that runs out of memory ends, and the job with it: Spark would live on without the thread that found none."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

STARVED = """
import sys
from pathlib import Path
from py4j.protocol import Py4JError
from streaming.pipeline.spark_session import session

gateway = session(master="local[1]", logs=Path(sys.argv[1]), settings={}).sparkContext._gateway
try:
    gateway.new_array(gateway.jvm.long, 1_000_000_000)
except (Py4JError, OSError):
    sys.exit(gateway.proc.wait(60))
"""


def test_a_java_without_memory_ends_and_says_so_among_its_errors(tmp_path: Path) -> None:
    # In a process of its own: it takes its Java with it.
    ended = subprocess.run(
        [sys.executable, "-c", STARVED, str(tmp_path)], capture_output=True, text=True, check=False, timeout=600
    )

    assert ended.returncode == 3, ended.stderr
    assert ended.stdout == "", "it is for alerts"
    assert "Terminating due to java.lang.OutOfMemoryError" in (tmp_path / "spark.err").read_text()
