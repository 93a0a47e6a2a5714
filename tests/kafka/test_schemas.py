"""The committed layouts are those of Kafka's jar, read again."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy.lab.jars import kafka_jars

COMMITTED = Path(__file__).parents[2] / "connectors" / "metadata" / "schemas" / "4.3.1.json"


@pytest.mark.lab
def test_the_committed_layouts_are_what_kafkas_jar_says(tmp_path: Path) -> None:
    jars = kafka_jars("4.3.1")

    subprocess.run([sys.executable, "-m", "deploy.schemas", "--jars", str(jars), "--to", str(tmp_path)], check=True)

    assert (tmp_path / "4.3.1.json").read_text() == COMMITTED.read_text()


def test_a_folder_without_kafka_is_refused_in_one_sentence(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "deploy.schemas", "--jars", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (
        2,
        f"{tmp_path} holds no kafka-metadata jar: name a folder with all of Kafka's jars.\n",
    )
