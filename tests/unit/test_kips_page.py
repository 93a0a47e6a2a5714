"""docs/kips.md lists what tests each KIP. The tests say it too, in a docstring or comment that begins with the KIP.

`# KIP-853, DescribeQuorum: ...` in a case, a script or a log scenario names a section, `# KIP-853: ...` the whole KIP.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "kips.md"
NAMED = re.compile(r'^(?:# |""")KIP-(?P<kip>\d+)(?:, (?P<section>[^:\n]+))?: ', re.MULTILINE)
LINK = re.compile(r"\]\((?P<path>[^)#]+)")


class Row(NamedTuple):
    """A section of a KIP, and the files that its row links."""

    section: str
    linked: frozenset[Path]


def rows() -> dict[str, list[Row]]:
    """Returns the rows of each KIP by its number."""
    found: dict[str, list[Row]] = {}
    for of_kip in PAGE.read_text(encoding="utf-8").split("\n## KIP-")[1:]:
        found[of_kip.partition(":")[0]] = [
            Row(line.split("|")[1].strip(), frozenset(files(line)))
            for line in of_kip.split("\n")
            if line.startswith("|")
        ]
    return found


def files(text: str) -> Iterator[Path]:
    return ((PAGE.parent / link["path"]).resolve() for link in LINK.finditer(text) if "://" not in link["path"])


ROWS = rows()
TESTS = [*(ROOT / "tests").rglob("*.txt"), *(ROOT / "tests" / "kips").glob("test_*.py")]
STATED = [(path, found) for path in sorted(TESTS) for found in NAMED.finditer(path.read_text(encoding="utf-8"))]


def test_every_linked_file_exists() -> None:
    assert [path for path in files(PAGE.read_text(encoding="utf-8")) if not path.exists()] == []


@pytest.mark.parametrize(
    ("path", "stated"), STATED, ids=[f"{path.relative_to(ROOT)} {found[0]}" for path, found in STATED]
)
def test_what_begins_with_a_kip_is_listed_for_it(path: Path, stated: re.Match[str]) -> None:
    listed = [row for row in ROWS.get(stated["kip"], ()) if (stated["section"] or "") in row.section]

    assert stated["kip"] not in ROWS or any(path in row.linked for row in listed)


def test_every_test_of_a_kip_names_it() -> None:
    assert {path for path, _ in STATED} >= {path for path in TESTS if path.parent.name == "kips"}
