"""The committed layouts are those of Kafka's jars, read again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.lab.jars import kafka_jars
from deploy.schemas.merging import known_to, merged, text
from deploy.schemas.reflection import KAFKAS, reflected

COMMITTED = Path(__file__).parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


@pytest.mark.lab
def test_the_committed_layouts_are_what_the_newest_kafkas_jars_say() -> None:
    newest = merged([reflected(kafka_jars(KAFKAS[-1]))])
    committed = known_to(json.loads(COMMITTED.read_text()), KAFKAS[-1])

    for kind in ("records", "control"):
        for said, kept in zip(newest[kind], committed[kind], strict=True):
            assert {**said, "defaults": None} == {**kept, "defaults": None}
            # What is kept may know fields that only older Kafkas had.
            for path, defaults in said["defaults"].items():
                assert kept["defaults"][path].items() >= defaults.items()


def test_the_committed_file_is_in_the_form_that_is_written() -> None:
    committed = COMMITTED.read_text()

    assert text(json.loads(committed)) == committed
    assert tuple(json.loads(committed)["kafka"]) == KAFKAS


def test_a_folder_without_kafka_is_refused_in_one_sentence(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "deploy.schemas", "--jars", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (
        2,
        f"{tmp_path} holds no kafka-metadata jar: name a folder with all of Kafka's jars.\n",
    )
