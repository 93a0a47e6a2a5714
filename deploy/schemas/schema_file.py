"""Merges the record schemas of Kafka versions and writes `connectors/metadata/schemas/records.json`.

The merged form has each record version once, with the Kafka versions that know it. A new Kafka version adds its name to
the first line, and one line for each record version that is new or has a different encoding. A record version that it
no longer knows gets an `until`. So the file's diff shows what changed.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.lab import LabError
from deploy.lab.jars import kafka_jars
from deploy.schemas.jar_schemas import Description, folder_schemas

KAFKA_VERSIONS = ("3.3.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.2", "4.3.1", "4.4.0")
"""The Kafka versions whose records are known, oldest first. `make kafka VERSION=x` adds one."""
FILE = Path(__file__).resolve().parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


def main() -> int:
    """Writes the file; returns 2 with an error message if that fails."""
    try:
        write_schemas(KAFKA_VERSIONS)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def write_schemas(kafkas: Sequence[str]) -> None:
    """Writes the file for these Kafka versions, oldest first, and prints what it holds."""
    document = merge_kafka_versions([folder_schemas(kafka_jars(kafka)) for kafka in kafkas])
    FILE.write_text(document_text(document))
    versions = sum(len(record["versions"]) for kind in ("records", "control") for record in document[kind])
    types = f"{len(document['records'])} metadata and {len(document['control'])} control record types"
    sys.stdout.write(f"{FILE}: Kafka {', '.join(document['kafka'])}: {types}, {versions} versions\n")


def merge_kafka_versions(kafkas: Sequence[Description]) -> Description:
    """Returns the merged schemas.

    Args:
        kafkas: the records of each Kafka version (`jar_schemas`), oldest first.
    """
    names = [kafka["kafka"] for kafka in kafkas]
    document: Description = {"kafka": names}
    for kind in ("records", "control"):
        records: dict[tuple[int, str], Description] = {}
        for index, kafka in enumerate(kafkas):
            for record in kafka[kind]:
                _add(records, record, index, names)
        document[kind] = [_with_range(records[key], names) for key in sorted(records)]
    return document


def document_text(document: Description) -> str:
    """Returns the content of the file: JSON with one record version per line."""
    kinds = (
        f'"{kind}": [\n' + ",\n".join(_record_text(record) for record in document[kind]) + "\n]"
        for kind in ("records", "control")
    )
    return "{" + ",\n".join((f'"kafka": {json.dumps(document["kafka"])}', *kinds)) + "}\n"


def _add(records: dict[tuple[int, str], Description], record: Description, index: int, names: Sequence[str]) -> None:
    identity: Description = {key: record[key] for key in ("type", "constant", "name") if key in record}
    new: Description = {**identity, "defaults": {}, "versions": []}
    known = records.setdefault((record["type"], record["name"]), new)
    for path, defaults in record["defaults"].items():
        old = known["defaults"].setdefault(path, {})
        for field, value in defaults.items():
            if old.setdefault(field, value) != value:
                raise LabError(f"{record['name']} {path} {field} is {old[field]} or {value} when absent")
        known["defaults"][path] = dict(sorted(old.items()))
    for version, fields in record["versions"].items():
        _extend(known["versions"], int(version), fields, index)


def _extend(lines: list[Description], version: int, fields: object, index: int) -> None:
    """Extends the line of the Kafka version before, or adds a line if the fields differ."""
    for line in lines:
        if line["version"] == version and line["fields"] == fields and line["last"] == index - 1:
            line["last"] = index
            return
    lines.append({"version": version, "first": index, "last": index, "fields": fields})


def _with_range(record: Mapping[str, Any], names: Sequence[str]) -> Description:
    versions = []
    for line in sorted(record["versions"], key=lambda line: (line["version"], line["first"])):
        until = {} if line["last"] == len(names) - 1 else {"until": names[line["last"]]}
        versions.append({"version": line["version"], "since": names[line["first"]], **until, "fields": line["fields"]})
    return {**record, "versions": versions}


def _record_text(record: Mapping[str, Any]) -> str:
    head = {key: value for key, value in record.items() if key != "versions"}
    lines = ",\n ".join(_compact(line) for line in record["versions"])
    return f'{_compact(head)[:-1]},"versions":[\n {lines}]}}'


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main())
