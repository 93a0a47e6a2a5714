"""Downloads Kafka versions into a new cache and writes their checksums to jars.lock.

`python -m deploy.lab.lock_jars VERSION ...`
"""

import sys
import tempfile
from pathlib import Path

from deploy.lab.jar_checksums import LOCK, sha256
from deploy.lab.jars import kafka_jars
from deploy.lab.lab_errors import LabError


def main(versions: list[str]) -> int:
    """Writes jars.lock for exactly these versions; returns 2 with an error message if a download fails."""
    checksums: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="kraftwatch-jars-") as folder:
        try:
            for version in versions:
                checksums.update({jar.name: sha256(jar) for jar in kafka_jars(version, cache=Path(folder)).iterdir()})
        except LabError as error:
            sys.stderr.write(f"{error}\n")
            return 2
    LOCK.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(checksums.items())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
