"""Run Reflect.java on Kafka's jars and write what it says, one record type a line."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from deploy.lab.errors import LabError
from deploy.lab.jars import KAFKA_VERSION, kafka_jars

_HERE = Path(__file__).resolve().parent
_SCHEMAS = _HERE.parents[1] / "connectors" / "metadata" / "schemas"


def main() -> int:
    """Write the schema file of the Kafka whose jars are named; exit 2 with a sentence when that cannot be done."""
    parser = argparse.ArgumentParser(prog="python -m deploy.schemas", description=__doc__)
    parser.add_argument("--kafka", default=KAFKA_VERSION, help="the Kafka to fetch from Maven Central")
    parser.add_argument("--jars", type=Path, help="a folder with Kafka's jars and what they need, instead of fetching")
    parser.add_argument("--to", type=Path, default=_SCHEMAS, help="where the schema files are kept")
    options = parser.parse_args()
    try:
        jars = options.jars or kafka_jars(options.kafka)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not list(jars.glob("kafka-metadata-*.jar")):
        sys.stderr.write(f"{jars} holds no kafka-metadata jar: name a folder with all of Kafka's jars.\n")
        return 2
    ran = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{jars}/*", str(_HERE / "Reflect.java")], stdout=subprocess.PIPE, check=False
    )
    if ran.returncode != 0:
        sys.stderr.write(f"java could not reflect on {jars}: it says above why (a JDK 17 or newer is needed).\n")
        return 2
    found = json.loads(ran.stdout)
    path = options.to / f"{found['kafka']}.json"
    path.write_text(_lines(found))
    sys.stdout.write(f"{path}: {len(found['records'])} metadata and {len(found['control'])} control record types\n")
    return 0


def _lines(found: dict[str, object]) -> str:
    """JSON with one record type a line, so that a difference between versions can be read."""
    parts = [f'"kafka": {json.dumps(found["kafka"])}']
    for kind in ("records", "control"):
        types = found[kind]
        assert isinstance(types, list)
        parts.append(
            f'"{kind}": [\n' + ",\n".join(json.dumps(record, separators=(",", ":")) for record in types) + "\n]"
        )
    return "{" + ",\n".join(parts) + "}\n"


if __name__ == "__main__":
    sys.exit(main())
