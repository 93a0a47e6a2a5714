"""Runs Reflect.java on the jars of every Kafka version and writes the merged schemas to one file."""

import sys
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.jars import kafka_jars
from deploy.schemas.reflection import (
    KAFKA_VERSIONS,
    document_text,
    merge_kafka_versions,
    reflect_schemas,
)

_FILE = Path(__file__).resolve().parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


def main() -> int:
    """Writes the file; returns 2 with an error message if that fails."""
    try:
        document = merge_kafka_versions([reflect_schemas(kafka_jars(kafka)) for kafka in KAFKA_VERSIONS])
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    _FILE.write_text(document_text(document))
    versions = sum(len(record["versions"]) for kind in ("records", "control") for record in document[kind])
    types = f"{len(document['records'])} metadata and {len(document['control'])} control record types"
    sys.stdout.write(f"{_FILE}: Kafka {', '.join(document['kafka'])}: {types}, {versions} versions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
