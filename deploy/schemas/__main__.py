"""Run Reflect.java on the jars of every Kafka and write what they say as one file."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.jars import kafka_jars
from deploy.schemas.merging import ContradictionError, Described, merged, text

KAFKAS = ("3.3.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1")
"""Whose records are known, oldest first. To add a Kafka, write it here and run `make schemas`."""
_HERE = Path(__file__).resolve().parent
_FILE = _HERE.parents[1] / "connectors" / "metadata" / "schemas" / "records.json"


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


def reflected(jars: Path) -> Described:
    """What Reflect.java says of the Kafka in a folder.

    Raises:
        LabError: it is no folder of Kafka's jars, or java could not read them.
    """
    if not list(jars.glob("kafka-metadata-*.jar")):
        raise LabError(f"{jars} holds no kafka-metadata jar: name a folder with all of Kafka's jars.")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(_HERE / "Reflect.java")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.stderr.write(ran.stderr)
        raise LabError(f"java could not reflect on {jars}: it says above why (a JDK 17 or newer is needed).")
    found: Described = json.loads(ran.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
