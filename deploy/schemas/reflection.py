"""Reads the record schemas of one Kafka version from its jars, with Reflect.java."""

import json
import subprocess
import sys
from pathlib import Path

from deploy.lab.lab_errors import LabError
from deploy.schemas.merging import Description

KAFKA_VERSIONS = ("3.3.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1")
"""The Kafka versions whose records are known, oldest first. To add one, list it here and run `make schemas`."""
_PROGRAM = Path(__file__).with_name("Reflect.java")


def reflect_schemas(jars: Path) -> Description:
    """Returns the output of Reflect.java for the Kafka in a folder.

    Raises:
        LabError: the folder does not hold Kafka's jars, or java failed.
    """
    if not list(jars.glob("kafka-metadata-*.jar")):
        raise LabError(f"{jars} holds no kafka-metadata jar: name a folder with all of Kafka's jars.")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(_PROGRAM)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.stderr.write(ran.stderr)
        raise LabError(f"java could not read {jars}: see its output above (JDK 17 or newer is required).")
    found: Description = json.loads(ran.stdout)
    return found
