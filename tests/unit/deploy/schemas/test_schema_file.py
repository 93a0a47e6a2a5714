"""Merging the schemas of several Kafka versions into one file with readable differences."""

from typing import Any

import pytest

from deploy.lab import LabError
from deploy.schemas.schema_file import merge_kafka_versions


def kafka_schemas(name: str, absent: int = 0, **versions: list[str]) -> dict[str, Any]:
    fields = {version[1:]: [{"name": field, "type": "int32"} for field in names] for version, names in versions.items()}
    record = {"type": 7, "constant": "A_RECORD", "name": "ARecord", "defaults": {"": {"a": absent}}, "versions": fields}
    return {"kafka": name, "records": [record] if versions else [], "control": []}


def ranges(document: dict[str, Any]) -> list[tuple[int, str, str | None]]:
    (record,) = document["records"]
    return [(line["version"], line["since"], line.get("until")) for line in record["versions"]]


@pytest.mark.parametrize(
    ("kafkas", "lines"),
    [
        ([kafka_schemas("1", v0=["a"]), kafka_schemas("2", v0=["a"])], [(0, "1", None)]),
        ([kafka_schemas("1", v0=["a"]), kafka_schemas("2", v0=["a"], v1=["a", "b"])], [(0, "1", None), (1, "2", None)]),
        (
            [kafka_schemas("1", v0=["a"]), kafka_schemas("2", v0=["b"]), kafka_schemas("3", v0=["b"])],
            [(0, "1", "1"), (0, "2", None)],
        ),
        (
            [kafka_schemas("1", v0=["a"]), kafka_schemas("2"), kafka_schemas("3", v0=["a"])],
            [(0, "1", "1"), (0, "3", None)],
        ),
    ],
    ids=["known to every Kafka", "a later version", "changed fields", "one Kafka lacks it"],
)
def test_a_version_has_a_line_for_each_series_of_kafkas_with_the_same_fields(
    kafkas: list[dict[str, Any]], lines: list[tuple[int, str, str | None]]
) -> None:
    assert ranges(merge_kafka_versions(kafkas)) == lines


def test_a_changed_default_is_refused() -> None:
    with pytest.raises(LabError, match="ARecord  a is 0 or 1 when absent"):
        merge_kafka_versions([kafka_schemas("1", v0=["a"]), kafka_schemas("2", absent=1, v0=["a"])])
