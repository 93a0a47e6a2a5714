"""The sha256 of each jar from Maven Central, by file name: jars.lock, which `deploy.lab.lock_jars` writes."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from deploy.lab.lab_errors import LabError

LOCK = Path(__file__).with_name("jars.lock")
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<jar>\S+\.jar)")
"""The format of sha256sum."""


@cache
def jar_checksums(lock: Path = LOCK) -> Mapping[str, str]:
    """Returns the expected sha256 of each jar by its file name.

    Raises:
        LabError: a line of the lock file is invalid.
    """
    checksums = {}
    for number, line in enumerate(lock.read_text(encoding="utf-8").splitlines(), start=1):
        entry = _LINE.fullmatch(line)
        if entry is None:
            raise LabError(f"{lock}, line {number}: expected a sha256 and a jar: restore the file from the repository")
        checksums[entry["jar"]] = entry["sha256"]
    return checksums


def verify_jars(jars: Path, checksums: Mapping[str, str], *, lock: Path = LOCK) -> list[str]:
    """Returns the names of the jars in a folder that have no checksum; `lock` is the file that the error names.

    Raises:
        LabError: a jar differs from its checksum.
    """
    expected = {jar.name: checksums.get(jar.name) for jar in sorted(jars.iterdir())}
    for name, checksum in expected.items():
        if checksum is not None and sha256(jars / name) != checksum:
            raise LabError(
                f"{name} from Maven Central is not the file that {lock.name} pins (sha256 {checksum[:12]}…): it was "
                "changed in transit or at its source; do not use it, and ask the operator of your Maven Central mirror"
            )
    return [name for name, checksum in expected.items() if checksum is None]


def sha256(file: Path) -> str:
    """Returns the digest in hexadecimal."""
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
