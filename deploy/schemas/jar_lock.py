"""Writes `deploy/lab/jars.lock`, the sha256 of each jar of Kafka that the lab downloads.

`python -m deploy.schemas.jar_lock VERSION ...` writes it for exactly these versions; `make kafka VERSION=x` adds one.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.jars import LOCK, jar_checksums, kafka_jars, sha256


def lock_jars(versions: Sequence[str], *, keep: bool = False) -> None:
    """Writes jars.lock for exactly these versions, or adds them; each is downloaded into a new cache.

    `keep`: what the file holds stays.
    """
    checksums = dict(jar_checksums()) if keep else {}
    with tempfile.TemporaryDirectory(prefix="kraftwatch-jars-") as folder:
        for version in versions:
            checksums.update({jar.name: sha256(jar) for jar in kafka_jars(version, cache=Path(folder)).iterdir()})
    LOCK.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(checksums.items())), encoding="utf-8")
    jar_checksums.cache_clear()


def main(versions: list[str]) -> int:
    """Writes jars.lock for exactly these versions; returns 2 with an error message if a download fails."""
    try:
        lock_jars(versions)
    except LabError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
