"""Runs Reflect.java on the jars of every Kafka version and writes the merged schemas to one file."""

import argparse
import sys
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.jars import kafka_jars
from deploy.schemas.reflection import (
    KAFKA_VERSIONS,
    ContradictionError,
    document_text,
    merge_kafka_versions,
    reflect_schemas,
)

_FILE = Path(__file__).resolve().parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


def main() -> int:
    """Writes the file for the named Kafka versions; returns 2 with an error message if that fails."""
    parser = argparse.ArgumentParser(prog="python -m deploy.schemas", description=__doc__)
    parser.add_argument("--kafka", action="append", help="a Kafka version to fetch from Maven Central (default: all)")
    parser.add_argument(
        "--jars", type=Path, help="a folder with the jars of one Kafka and their dependencies; fetches nothing"
    )
    parser.add_argument("--to", type=Path, default=_FILE, help="the file to write")
    options = parser.parse_args()
    try:
        folders = [options.jars] if options.jars else [kafka_jars(kafka) for kafka in options.kafka or KAFKA_VERSIONS]
        document = merge_kafka_versions([reflect_schemas(folder) for folder in folders])
    except (LabError, ContradictionError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    options.to.write_text(document_text(document))
    versions = sum(len(record["versions"]) for kind in ("records", "control") for record in document[kind])
    types = f"{len(document['records'])} metadata and {len(document['control'])} control record types"
    sys.stdout.write(f"{options.to}: Kafka {', '.join(document['kafka'])}: {types}, {versions} versions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
