"""`make audit`: what is made of a report of pip-audit."""

from typing import Any

import pytest

from tests.audit import verdict

WELL = {"name": "a", "version": "1", "vulns": []}
UNKNOWN = {"name": "b", "skip_reason": "Dependency not found on PyPI"}
VULNERABLE = {
    "name": "c",
    "version": "1.2",
    "vulns": [{"id": "PYSEC-1", "aliases": ["CVE-2026-1"], "fix_versions": ["1.3", "2.0"], "description": ""}],
}


@pytest.mark.parametrize(
    ("packages", "code", "line"),
    [
        ([WELL], 0, "audit: no vulnerability of the 1 locked packages is known"),
        ([WELL, UNKNOWN, VULNERABLE], 1, "c 1.2: PYSEC-1 CVE-2026-1, fixed in 1.3, 2.0"),
        ([WELL, UNKNOWN], 2, "b: the service does not know it"),
        ([UNKNOWN], 2, "audit: the vulnerability service does not answer (pip-audit asks pypi.org): run this where it"),
        ([], 2, "audit: the vulnerability service does not answer"),
    ],
)
def test_what_is_found_and_what_could_not_be_asked(packages: list[dict[str, Any]], code: int, line: str) -> None:
    found, lines = verdict({"dependencies": packages})
    assert found == code
    assert lines[0].startswith(line)
