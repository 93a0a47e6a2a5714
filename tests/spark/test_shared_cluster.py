"""Two jobs on one standalone cluster: the first one leaves cores for the second, its standby."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.job.spark_cluster import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]
JOB = """
import sys
from pathlib import Path
from streaming.pipeline.spark.spark_session import start_spark

spark = start_spark(master=sys.argv[1], logs=Path(sys.argv[2]), settings={"spark.executor.memory": "512m"})
spark.range(4).repartition(4).count()
print("has cores", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone_cluster(tmp_path / "cluster", workers=2) as master:
        yield master


def test_a_standby_gets_cores_of_the_cluster(master: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for name in ("active", "standby"):
            output = tmp_path / f"{name}.out"
            with output.open("wb") as written:
                process = subprocess.Popen(
                    [sys.executable, "-c", JOB, master, str(tmp_path / name)],
                    stdin=subprocess.PIPE,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                )
            stack.enter_context(process)
            stack.callback(process.kill)
            eventually(partial(has_cores, output), within_s=90, every_s=0.5)


def has_cores(output: Path) -> bool:
    return "has cores" in output.read_text()
