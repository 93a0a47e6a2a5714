"""The rows of the KIP texts, the excused rows, and the coverage by the tests that cite them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REQUIRED = frozenset("MRAS")
"""Tags of rows that require a test or an excuse: decode, replay, alert, show."""
_ROW = re.compile(r"(?P<number>[A-K]\d{3})  (?P<text>\S+) +(?P<tags>[MRASTX]+) +(?P<fact>\S.*)")
_EXCUSE = re.compile(r"- (?P<numbers>[A-K]\d{3}(?:, [A-K]\d{3})*): (?P<reason>\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class KipRow:
    """One fact: its number, its KIP, its tags, and the fact in short."""

    number: str
    text: str
    tags: frozenset[str]
    fact: str

    @property
    def required(self) -> bool:
        return bool(self.tags & REQUIRED)


def read_rows(lines: Iterable[str]) -> dict[str, KipRow]:
    """Returns the rows by number; lines that begin with # are comments.

    Raises:
        ValueError: a line is not a row, or a number is repeated.
    """
    rows: dict[str, KipRow] = {}
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        match = _ROW.fullmatch(line.rstrip())
        if match is None:
            raise ValueError(f"not a row: {line!r}")
        number = match["number"]
        if number in rows:
            raise ValueError(f"{number} is repeated")
        rows[number] = KipRow(number=number, text=match["text"], tags=frozenset(match["tags"]), fact=match["fact"])
    return rows


def read_excuses(lines: Iterable[str]) -> dict[str, str]:
    """Returns the rows that no test can cover, each with its reason: `- A031, A032: reason`.

    Raises:
        ValueError: an item is not an excuse, or a row is excused twice.
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


def repository_lists() -> tuple[dict[str, KipRow], dict[str, str]]:
    """Returns the rows and the excuses of this repository."""
    return (
        read_rows((HERE / "rows.txt").read_text().splitlines()),
        read_excuses((HERE / "not-covered.md").read_text().splitlines()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCoverage:
    """The coverage of the rows by the citations."""

    rows: Mapping[str, KipRow]
    covered: frozenset[str]
    excused: frozenset[str]
    faults: tuple[str, ...]

    @property
    def open(self) -> list[KipRow]:
        """The required rows that are neither covered nor excused."""
        return [row for row in self.rows.values() if row.required and row.number not in self.covered | self.excused]

    def counts(self, rows: Iterable[KipRow]) -> tuple[int, int, int]:
        """Returns the numbers of covered, excused and all of these rows."""
        numbers = {row.number for row in rows}
        return len(numbers & self.covered), len(numbers & self.excused), len(numbers)


def evaluate(
    rows: Mapping[str, KipRow],
    reasons: Mapping[str, str],
    citations: Mapping[str, frozenset[str]],
    passed: frozenset[str],
    simulated: frozenset[str] = frozenset(),
) -> RowCoverage:
    """Returns the coverage of the rows by the citations (test -> rows) and the passed tests.

    A row is covered if every test that cites it passed and, where a test is required, one of them is not in
    `simulated`: a test that uses the simulated quorum may touch nothing else. Errors are a required row that is neither
    covered nor excused, a citing test that did not pass, a number that is not a row, a row that is cited and excused,
    and excuses for more than a quarter of the required rows.
    """
    cited_by: dict[str, list[str]] = {}
    for test, numbers in citations.items():
        for number in numbers:
            cited_by.setdefault(number, []).append(test)
    failing = sorted({test for tests in cited_by.values() for test in tests if test not in passed})
    not_the_product = {
        number
        for number, tests in cited_by.items()
        if number in rows and rows[number].required and simulated.issuperset(tests)
    }
    covered = frozenset(
        number
        for number, tests in cited_by.items()
        if number in rows and number not in not_the_product and passed.issuperset(tests)
    )
    required = [row.number for row in rows.values() if row.required]
    excused_required = [number for number in required if number in reasons]
    faults = [
        f"{test} cites {number}, which is not a row" for number in cited_by.keys() - rows for test in cited_by[number]
    ]
    faults += [f"{test} cites {', '.join(sorted(citations[test]))} and did not pass" for test in failing]
    faults += [f"{number} is excused and is not a row" for number in reasons if number not in rows]
    faults += [f"{number} is cited by {cited_by[number][0]} and excused" for number in reasons if number in cited_by]
    faults += [
        f"{number} is cited by tests of the simulated quorum only: cite it in a test of the product"
        for number in not_the_product
    ]
    faults += [
        f"{number} is open: cite it in a test, or excuse it in not-covered.md ({rows[number].fact})"
        for number in required
        if number not in cited_by and number not in reasons
    ]
    if 4 * len(excused_required) > len(required):
        faults.append(
            f"{len(excused_required)} of {len(required)} required rows are excused: at most a quarter is allowed"
        )
    return RowCoverage(rows=rows, covered=covered, excused=frozenset(reasons), faults=tuple(sorted(faults)))
