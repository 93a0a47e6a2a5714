"""The rows of the KIP texts, which of them are excused, and the verdict on the tests that cite them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
OWED = frozenset("MRAS")
"""Tags of rows that are owed a test or a reason: decode, replay, alert, show."""
_ROW = re.compile(r"(?P<number>[A-K]\d{3})  (?P<text>\S+) +(?P<tags>[MRASTX]+) +(?P<fact>\S.*)")
_EXCUSE = re.compile(r"- (?P<numbers>[A-K]\d{3}(?:, [A-K]\d{3})*): (?P<reason>\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One fact: its number, the KIP whose text says it, its tags, and the fact in our words."""

    number: str
    text: str
    tags: frozenset[str]
    fact: str

    @property
    def owed(self) -> bool:
        return bool(self.tags & OWED)


def known(lines: Iterable[str]) -> dict[str, Row]:
    """The rows by number; lines that begin with # are remarks.

    Raises:
        ValueError: a line is no row, or a number stands twice.
    """
    rows: dict[str, Row] = {}
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            raise ValueError(f"not a row: {line!r}")
        number = match["number"]
        if number in rows:
            raise ValueError(f"{number} stands twice")
        rows[number] = Row(number=number, text=match["text"], tags=frozenset(match["tags"]), fact=match["fact"])
    return rows


def excused(lines: Iterable[str]) -> dict[str, str]:
    """The rows that no test can show, each with its reason: `- A031, A032: why`.

    Raises:
        ValueError: an item of the list is no excuse, or a row is excused twice.
    """
    reasons: dict[str, str] = {}
    for line in lines:
        if not line.startswith("- "):
            continue
        match = _EXCUSE.fullmatch(line.rstrip())
        if match is None:
            raise ValueError(f"not an excuse: {line!r}")
        for number in match["numbers"].split(", "):
            if number in reasons:
                raise ValueError(f"{number} is excused twice")
            reasons[number] = match["reason"]
    return reasons


def here() -> tuple[dict[str, Row], dict[str, str]]:
    """The rows and the excuses of this repository."""
    return (
        known((HERE / "rows.txt").read_text().splitlines()),
        excused((HERE / "not-covered.md").read_text().splitlines()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the citations amount to."""

    rows: Mapping[str, Row]
    covered: frozenset[str]
    excused: frozenset[str]
    faults: tuple[str, ...]

    @property
    def open(self) -> list[Row]:
        """Owed, and neither covered nor excused."""
        return [row for row in self.rows.values() if row.owed and row.number not in self.covered | self.excused]

    def counts(self, rows: Iterable[Row]) -> tuple[int, int, int]:
        """Covered, excused and all of these rows."""
        numbers = {row.number for row in rows}
        return len(numbers & self.covered), len(numbers & self.excused), len(numbers)


def evaluate(
    rows: Mapping[str, Row],
    reasons: Mapping[str, str],
    citations: Mapping[str, frozenset[str]],
    passed: frozenset[str],
) -> Verdict:
    """Hold citations (test -> rows) and the tests that passed against the rows and the excuses.

    A row is covered when every test that cites it passed; one that did not is a fault, like a number that
    is no row, a row that is covered and excused, and more excuses than a quarter of the owed rows.
    """
    cited_by: dict[str, list[str]] = {}
    for test, numbers in citations.items():
        for number in numbers:
            cited_by.setdefault(number, []).append(test)
    failing = sorted({test for tests in cited_by.values() for test in tests if test not in passed})
    covered = frozenset(number for number, tests in cited_by.items() if number in rows and passed.issuperset(tests))
    owed = [row.number for row in rows.values() if row.owed]
    spared = [number for number in owed if number in reasons]
    faults = [
        f"{test} cites {number}, which is no row" for number in cited_by.keys() - rows for test in cited_by[number]
    ]
    faults += [f"{test} cites {', '.join(sorted(citations[test]))} and did not pass" for test in failing]
    faults += [f"{number} is excused and is no row" for number in reasons if number not in rows]
    faults += [f"{number} is cited by {cited_by[number][0]} and excused" for number in reasons if number in cited_by]
    if 4 * len(spared) > len(owed):
        faults.append(f"{len(spared)} of {len(owed)} owed rows are excused: a quarter at most")
    return Verdict(rows=rows, covered=covered, excused=frozenset(reasons), faults=tuple(sorted(faults)))
