"""The committed record schemas match Kafka's jars."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.lab import LabError
from deploy.lab.jars import kafka_jars
from deploy.schemas.jar_schemas import folder_schemas
from deploy.schemas.schema_file import KAFKA_VERSIONS, document_text, merge_kafka_versions

COMMITTED = Path(__file__).parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


def newest_versions(record: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """Returns number and fields of each version of a record that the newest Kafka knows."""
    return [(line["version"], line["fields"]) for line in record["versions"] if "until" not in line]


@pytest.mark.lab
def test_the_committed_schemas_match_the_newest_kafkas_jars() -> None:
    newest = merge_kafka_versions([folder_schemas(kafka_jars(KAFKA_VERSIONS[-1]))])
    committed = json.loads(COMMITTED.read_text())

    for kind in ("records", "control"):
        known = [record for record in committed[kind] if newest_versions(record)]
        for current, stored in zip(newest[kind], known, strict=True):
            assert {**current, "defaults": None, "versions": newest_versions(current)} == {
                **stored,
                "defaults": None,
                "versions": newest_versions(stored),
            }
            # The stored defaults may include fields that only older Kafka versions have.
            for path, defaults in current["defaults"].items():
                assert stored["defaults"][path].items() >= defaults.items()


def test_the_committed_file_has_the_form_that_make_schemas_writes() -> None:
    committed = COMMITTED.read_text()

    assert document_text(json.loads(committed)) == committed
    assert tuple(json.loads(committed)["kafka"]) == KAFKA_VERSIONS


def test_a_folder_without_kafka_jars_is_reported_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"holds no kafka-metadata jar: name a folder with all of Kafka's jars\.$"):
        folder_schemas(tmp_path)
