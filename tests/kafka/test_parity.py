"""`kraftwatch data decode` prints what kafka-dump-log prints, for every record that the newest Kafka can write.

`make parity` checks the other Kafka versions.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from connectors.metadata.dump_log import CONTROL_NAMES
from connectors.metadata.record_schemas import record_schemas
from deploy.lab.jars import KAFKA_VERSION
from deploy.schemas.schema_file import KAFKA_VERSIONS
from tests.kafka.conftest import MakeLab
from tests.kafka.parity import (
    SEGMENT,
    Record,
    compare_everything,
    compare_files,
    decode_file,
    generated_files,
)

PASSWORD = "planted-keystore-password"


def decode(path: Path, *options: str) -> str:
    command = [sys.executable, "-m", "streaming", "data", "decode", str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.lab
def test_every_record_of_the_newest_kafka_and_generated_files_decode_as_by_kafka(
    kafka_jars: Path, tmp_path: Path
) -> None:
    compared = compare_everything(KAFKA_VERSIONS[-1], tmp_path, *generated_files(tmp_path))

    assert compared.differences == []
    assert compared.records > 29_000
    written = tmp_path / KAFKA_VERSIONS[-1]
    assert_complete([record for path in sorted(written.rglob(SEGMENT)) for record in decode_file(path)])


def assert_complete(records: Sequence[Record]) -> None:
    """Asserts that every record version is among them, with each of its tagged fields and without."""
    known = record_schemas(KAFKA_VERSIONS[-1])
    for schema in (*known.records.values(), *known.control.values()):
        for version, (fields, *_) in schema.versions.items():
            name = schema.constant or CONTROL_NAMES[schema.name]
            written = [json.loads(record[5] or "") for record in records if record[3:5] == (name, version)]
            assert len(written) >= 7, f"{name} version {version}"
            for field in fields.fields:
                assert any(field.json in data for data in written), f"{name} version {version} has {field.json}"
                if field.tag is not None:
                    assert any(field.json not in data for data in written), f"{name} version {version} {field.json}"


@pytest.mark.lab
def test_files_of_a_real_quorum_decode_as_by_kafka_and_passwords_are_blanked(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=0, brokers=0, combined=1)
    quorum.create_topic("orders", partitions=3)
    quorum.plant_secret(PASSWORD)
    quorum.kill(*quorum.controllers)
    source = quorum.node(quorum.controllers[0]).metadata_log
    copies = [tmp_path / path.name for path in sorted(source.iterdir()) if path.suffix in {".log", ".checkpoint"}]
    for path in copies:
        shutil.copy(source / path.name, path)

    compared = compare_files(KAFKA_VERSION, *copies)

    assert compared.differences == []
    assert {path.suffix for path in copies} == {".log", ".checkpoint"}
    (log,) = (path for path in copies if path.suffix == ".log")
    assert PASSWORD in decode(log, "--show-secrets")
    for output in (decode(log), decode(log, "--json")):
        assert PASSWORD not in output
        assert "my.custom.password" in output, "the record itself is printed"
        assert "(blanked)" in output
