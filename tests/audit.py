"""`make audit`: known vulnerabilities of the locked packages, by pip-audit, which asks PyPI for each of them.

It ends with 1 if one is known, and with 2 if the service does not answer: pip-audit alone then finds nothing wrong.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
_NO_ANSWER = "audit: the vulnerability service does not answer (pip-audit asks pypi.org): run this where it does"


def main(lock: Path = LOCK) -> int:
    """Prints what pip-audit finds, and returns the exit code."""
    words = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off", "--disable-pip"]
    ran = subprocess.run([*words, "--require-hashes", f"--requirement={lock}"], capture_output=True, text=True)
    try:
        code, lines = verdict(json.loads(ran.stdout))
    except ValueError:
        # Its last line of a traceback names the host at most.
        code, lines = 2, [_NO_ANSWER, *ran.stderr.splitlines()[-1:]]
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return code


def verdict(report: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Returns the exit code and what is printed for a report of pip-audit."""
    packages = report["dependencies"]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if len(skipped) == len(packages):
        return 2, [_NO_ANSWER]
    found = [*_found(packages)]
    lines = [*found, *(f"{name}: the service does not know it" for name in skipped)]
    if not lines:
        return 0, [f"audit: no vulnerability of the {len(packages)} locked packages is known"]
    return 1 if found else 2, lines


def _found(packages: list[dict[str, Any]]) -> Iterator[str]:
    for one in packages:
        for each in one.get("vulns", ()):
            fixed = ", ".join(each["fix_versions"]) or "no version"
            yield f"{one['name']} {one['version']}: {' '.join([each['id'], *each['aliases']])}, fixed in {fixed}"


if __name__ == "__main__":
    sys.exit(main())
