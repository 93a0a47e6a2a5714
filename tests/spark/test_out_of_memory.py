"""Java ends when it runs out of memory, and the job with it; otherwise Spark continues without the failed thread."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ALLOCATE_TOO_MUCH = """
import sys
from pathlib import Path
from py4j.protocol import Py4JError
from streaming.pipeline.spark_session import start_spark

gateway = start_spark(master="local[1]", logs=Path(sys.argv[1]), settings={}).sparkContext._gateway
try:
    gateway.new_array(gateway.jvm.long, 1_000_000_000)
except (Py4JError, OSError):
    sys.exit(gateway.proc.wait(60))
"""


def test_java_without_memory_ends_and_logs_the_reason(tmp_path: Path) -> None:
    # In a child process: its Java ends too.
    result = subprocess.run(
        [sys.executable, "-c", ALLOCATE_TOO_MUCH, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert result.returncode == 3, result.stderr
    assert result.stdout == "", "stdout is for alerts"
    assert "Terminating due to java.lang.OutOfMemoryError" in (tmp_path / "spark.err").read_text()
