"""The committed record schemas match Kafka's jars."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.lab.jars import kafka_jars
from deploy.schemas.reflection import (
    KAFKA_VERSIONS,
    document_text,
    merge_kafka_versions,
    reflect_schemas,
    schemas_known_to,
)

COMMITTED = Path(__file__).parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


@pytest.mark.lab
def test_the_committed_schemas_match_the_newest_kafkas_jars() -> None:
    newest = merge_kafka_versions([reflect_schemas(kafka_jars(KAFKA_VERSIONS[-1]))])
    committed = schemas_known_to(json.loads(COMMITTED.read_text()), KAFKA_VERSIONS[-1])

    for kind in ("records", "control"):
        for current, stored in zip(newest[kind], committed[kind], strict=True):
            assert {**current, "defaults": None} == {**stored, "defaults": None}
            # The stored defaults may include fields that only older Kafka versions have.
            for path, defaults in current["defaults"].items():
                assert stored["defaults"][path].items() >= defaults.items()


def test_the_committed_file_has_the_form_that_make_schemas_writes() -> None:
    committed = COMMITTED.read_text()

    assert document_text(json.loads(committed)) == committed
    assert tuple(json.loads(committed)["kafka"]) == KAFKA_VERSIONS


def test_a_folder_without_kafka_jars_is_reported_in_one_sentence(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "deploy.schemas", "--jars", str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stderr) == (
        2,
        f"{tmp_path} holds no kafka-metadata jar: name a folder with all of Kafka's jars.\n",
    )
