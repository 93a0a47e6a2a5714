"""Reflection: what one Kafka's jars say of its records, by Reflect.java."""

import json
import subprocess
import sys
from pathlib import Path

from deploy.lab.lab_errors import LabError
from deploy.schemas.merging import Described

KAFKAS = ("3.3.2", "3.6.2", "3.7.2", "3.8.1", "3.9.2", "4.0.1", "4.1.2", "4.2.1", "4.3.1")
"""Whose records are known, oldest first. To add a Kafka, write it here and run `make schemas`."""
_SOURCE = Path(__file__).with_name("Reflect.java")


def reflected(jars: Path) -> Described:
    """What Reflect.java says of the Kafka in a folder.

    Raises:
        LabError: it is no folder of Kafka's jars, or java could not read them.
    """
    if not list(jars.glob("kafka-metadata-*.jar")):
        raise LabError(f"{jars} holds no kafka-metadata jar: name a folder with all of Kafka's jars.")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(_SOURCE)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.stderr.write(ran.stderr)
        raise LabError(f"java could not reflect on {jars}: it says above why (a JDK 17 or newer is needed).")
    found: Described = json.loads(ran.stdout)
    return found
