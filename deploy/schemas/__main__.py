"""Run Reflect.java on the jars of every Kafka and write what they say as one file."""

import argparse
import sys
from pathlib import Path

from deploy.lab.jars import kafka_jars
from deploy.lab.lab_errors import LabError
from deploy.schemas.merging import ContradictionError, merged, text
from deploy.schemas.reflection import KAFKAS, reflected

_FILE = Path(__file__).resolve().parents[2] / "connectors" / "metadata" / "schemas" / "records.json"


def main() -> int:
    """Write the file of the Kafkas that are named; exit 2 with a sentence when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m deploy.schemas", description=__doc__)
    parser.add_argument("--kafka", action="append", help="a Kafka to fetch from Maven Central (all unless named)")
    parser.add_argument("--jars", type=Path, help="a folder with one Kafka's jars and what they need, no fetching")
    parser.add_argument("--to", type=Path, default=_FILE, help="the file to write")
    options = parser.parse_args()
    try:
        folders = [options.jars] if options.jars else [kafka_jars(kafka) for kafka in options.kafka or KAFKAS]
        whole = merged([reflected(folder) for folder in folders])
    except (LabError, ContradictionError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    options.to.write_text(text(whole))
    versions = sum(len(record["versions"]) for kind in ("records", "control") for record in whole[kind])
    types = f"{len(whole['records'])} metadata and {len(whole['control'])} control record types"
    sys.stdout.write(f"{options.to}: Kafka {', '.join(whole['kafka'])}: {types}, {versions} versions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
