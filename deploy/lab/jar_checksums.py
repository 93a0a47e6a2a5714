"""What each jar of Maven Central must be: sha256 by file name, in jars.lock.

`python -m deploy.lab.jar_checksums VERSION ...` fetches these Kafkas anew and writes jars.lock.
"""

import hashlib
import re
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from deploy.lab.lab_errors import LabError

LOCK = Path(__file__).with_name("jars.lock")
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<jar>\S+\.jar)")
"""As sha256sum writes and checks it."""


@cache
def pins(lock: Path = LOCK) -> Mapping[str, str]:
    """The sha256 that each jar must have, by its file's name.

    Raises:
        LabError: a line of the lock is none.
    """
    found = {}
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        pinned = _LINE.fullmatch(line)
        if pinned is None:
            raise LabError(f"{lock}, line {number}: no sha256 and jar: take the file from the repository again")
        found[pinned["jar"]] = pinned["sha256"]
    return found


def unpinned(jars: Path, pinned: Mapping[str, str]) -> list[str]:
    """The jars in a folder that the lock does not know.

    Raises:
        LabError: a jar is not what the lock says.
    """
    known = {jar.name: pinned.get(jar.name) for jar in sorted(jars.iterdir())}
    for name, wanted in known.items():
        if wanted is not None and sha256(jars / name) != wanted:
            raise LabError(
                f"{name} from Maven Central is not the file that {LOCK.name} pins (sha256 {wanted[:12]}…): it was "
                "changed on its way or at its source; do not use it, and find out who answers for your Maven Central"
            )
    return [name for name, wanted in known.items() if wanted is None]


def sha256(file: Path) -> str:
    """Its digest in hexadecimal."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


def main(versions: list[str]) -> int:
    """Fetch these Kafkas into a new cache and write what came; exit 2 with a sentence when that cannot be done."""
    from deploy.lab.jars import kafka_jars

    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="kraftwatch-jars-") as folder:
        try:
            for version in versions:
                found.update({jar.name: sha256(jar) for jar in kafka_jars(version, cache=Path(folder)).iterdir()})
        except LabError as problem:
            sys.stderr.write(f"{problem}\n")
            return 2
    LOCK.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(found.items())), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
