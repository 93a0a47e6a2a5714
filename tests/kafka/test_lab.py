"""The lab on a real quorum: the other tests of this folder rely on it."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import psutil
import pytest

from deploy.lab import LabError
from deploy.lab.jvm import TOOLS, Jvm
from deploy.lab.running_quorum import down, up
from tests.lab import Lab

pytestmark = pytest.mark.lab


def test_error_of_a_failed_start_has_the_end_of_the_log_and_no_process_remains(
    kafka_jars: Path, tmp_path: Path
) -> None:
    broken = Lab(tmp_path / "lab", controllers=1, brokers=0, properties={"num.io.threads": "none"})

    with pytest.raises(LabError, match=r"num\.io\.threads"), broken:
        pytest.fail("the quorum must not start")
    assert pids_in(tmp_path) == []


def test_every_tool_of_kafka_is_in_its_jars(kafka_jars: Path, tmp_path: Path) -> None:
    """Kafka moves its tools to other classes: kafka-configs in 4.4."""
    classes = {name for jar in kafka_jars.glob("kafka*.jar") for name in zipfile.ZipFile(jar).namelist()}
    jvm = Jvm(jars=kafka_jars, folder=tmp_path)
    mains = {tool: jvm.tool_command(tool, [])[-1] for tool in TOOLS}
    assert {tool: main for tool, main in mains.items() if f"{main.replace('.', '/')}.class" not in classes} == {}


STARTER = """
import sys
import zipfile
from pathlib import Path
from deploy.lab.running_quorum import RunningQuorum, up
up(RunningQuorum(Path(sys.argv[1]), controllers=1, brokers=1, supervised=False))
"""


def test_persistent_quorum_outlives_the_process_that_started_it(kafka_jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    subprocess.run([sys.executable, "-c", STARTER, str(folder)], check=True, timeout=300)
    try:
        assert len(pids_in(folder)) == 2
        with pytest.raises(LabError, match=r"^a lab is already running in "):
            up(Lab(folder, supervised=False))
    finally:
        assert down(folder) == 2
    assert pids_in(folder) == []
    assert down(folder) == 0


def pids_in(folder: Path) -> list[int]:
    """Returns the pids of all processes, guards included, whose command line contains this folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid()
    ]
