"""Schemas in the jars of a Kafka or of a fork, and what a new version has that the one before lacks."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from connectors.metadata.record_schemas import record_schemas
from deploy.lab import LabError
from deploy.schemas.jar_schemas import jar_schemas
from deploy.schemas.new_kafka import differences


def jar(path: Path, folder: str, *files: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as content:
        for file in files:
            content.writestr(f"{folder}/{file['name']}.json", f"// a licence\n{json.dumps(file)}\n")
    return path


def message(name: str, api_key: int, versions: str, *fields: dict[str, Any], kind: str = "metadata") -> dict[str, Any]:
    described = [{"versions": "0+", **field} for field in fields]
    valid = {"validVersions": versions, "flexibleVersions": "0+"}
    return {"apiKey": api_key, "type": kind, "name": name, **valid, "fields": described}


def test_a_record_of_a_fork_is_read_with_its_defaults_and_comments_are_skipped(tmp_path: Path) -> None:
    fields: list[dict[str, Any]] = [
        {"name": "StreamId", "type": "int64", "default": "0x10"},
        {"name": "KVName", "type": "string", "about": "a // in a text", "nullableVersions": "1+", "default": "null"},
        {
            "name": "Ranges",
            "type": "[]Range",
            "versions": "1+",
            "fields": [{"name": "On", "type": "bool", "versions": "1+"}],
        },
        {"name": "Owner", "type": "uuid", "taggedVersions": "0+", "tag": "0"},
    ]
    metadata = jar(tmp_path / "kafka-metadata-9.jar", "common/metadata", message("S3StreamRecord", 501, "0-1", *fields))

    (record,) = jar_schemas(metadata, None)["records"]

    assert (record["type"], record["constant"], record["name"]) == (501, "S3_STREAM_RECORD", "S3StreamRecord")
    assert record["defaults"][""] == {"kvname": None, "owner": None, "ranges": [], "stream_id": 16}
    assert record["versions"]["0"] == [
        {"name": "stream_id", "type": "int64"},
        {"name": "kvname", "json": "kVName", "type": "compact_string"},
        {"name": "owner", "type": "uuid", "tag": 0},
    ]
    assert record["versions"]["1"][1]["type"] == "compact_nullable_string"
    of_ranges = {"type": "struct", "fields": [{"name": "on", "type": "boolean"}]}
    assert record["versions"]["1"][2] == {"name": "ranges", "type": "compact_array", "of": of_ranges}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (message("ARecord", 1, "0", {"name": "A", "type": "int13"}), "the field a has type int13"),
        ({**message("ARecord", 1, "0"), "flexibleVersions": "none"}, "ARecord has a version without tagged fields"),
        (message("ARecord", 1, "0", kind="request"), "holds no record schemas"),
    ],
)
def test_a_jar_that_cannot_be_used_is_reported_in_one_sentence(
    tmp_path: Path, file: dict[str, Any], reason: str
) -> None:
    with pytest.raises(LabError, match=reason):
        jar_schemas(jar(tmp_path / "kafka-metadata-9.jar", "common/metadata", file), None)


def test_a_file_that_is_no_jar_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "kafka-metadata-9.jar").write_text("not a jar")

    with pytest.raises(LabError, match="cannot be read"):
        jar_schemas(tmp_path / "kafka-metadata-9.jar", None)


def test_new_changed_and_removed_records_and_rpcs_are_named(tmp_path: Path) -> None:
    number, text = {"name": "A", "type": "int32"}, {"name": "A", "type": "string"}
    old, new = tmp_path / "old", tmp_path / "new"
    before = (
        jar(old / "kafka-metadata-1.jar", "common/metadata", message("A", 0, "0-1", number), message("B", 7, "0")),
        jar(old / "kafka-clients-1.jar", "common/message", message("Fetch", 1, "4-17", kind="request")),
    )
    after = (
        jar(new / "kafka-metadata-2.jar", "common/metadata", message("A", 0, "0-2", text), message("C", 501, "0")),
        jar(new / "kafka-clients-2.jar", "common/message", message("Fetch", 1, "5-18", kind="request")),
    )

    assert [*differences(before, after)] == [
        "other fields: record 0 A version 0",
        "other fields: record 0 A version 1",
        "new: record 0 A version 2",
        "gone: record 7 B version 0",
        "new: record 501 C version 0",
        "gone: RPC 1 Fetch version 4",
        "new: RPC 1 Fetch version 18",
    ]
    assert not [line for line in differences(before, (after[0], None)) if "RPC" in line]
    assert [*differences(before, before)] == []


def test_the_committed_schemas_have_the_record_that_unregisters_a_controller() -> None:
    assert record_schemas("4.4.0").records.keys() - record_schemas("4.3.1").records.keys() == {29}
