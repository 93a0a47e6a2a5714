"""`make rows`: run the tests that cite rows, and print how many rows are covered, by text and by tag."""

import argparse
import sys
from collections.abc import Iterable

import pytest

from tests.kips.rows import KipRow, RowCoverage, evaluate, repository_lists

TAGS = {"M": "decode", "R": "replay", "A": "alert", "S": "show", "T": "simulate", "X": "beyond"}
SLOW = ("lab", "spark")


class Citations:
    """A pytest plugin: only tests that cite rows run; those on a real Kafka or Spark count as collected."""

    def __init__(self, *, slow: bool) -> None:
        self._slow = slow
        self.of: dict[str, frozenset[str]] = {}
        self.collected: set[str] = set()
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        chosen: list[pytest.Item] = []
        left: list[pytest.Item] = []
        for item in items:
            numbers = frozenset(str(number) for mark in item.iter_markers("kip") for number in mark.args)
            if numbers:
                self.of[item.nodeid] = numbers
            slow = any(item.get_closest_marker(name) for name in SLOW)
            if numbers and slow and not self._slow:
                self.collected.add(item.nodeid)
            (chosen if numbers and (self._slow or not slow) else left).append(item)
        config.hook.pytest_deselected(items=left)
        items[:] = chosen

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self._passed.add(report.nodeid)
        if not report.passed:
            self._failed.add(report.nodeid)

    @property
    def passed(self) -> frozenset[str]:
        return frozenset(self._passed - self._failed | self.collected)


def line(name: str, coverage: RowCoverage, rows: Iterable[KipRow]) -> str:
    covered, excused, total = coverage.counts(rows)
    return f"  {name:<22} {covered:>4} / {total:<4} covered, {excused:>3} excused, {total - covered - excused:>4} left"


def table(coverage: RowCoverage) -> list[str]:
    rows = coverage.rows.values()
    required = [row for row in rows if row.required]
    texts = sorted({row.text for row in required})
    return [
        "rows that require a test of decode, replay, alert or show (tags M, R, A, S):",
        *(line(text, coverage, [row for row in required if row.text == text]) for text in texts),
        line("together", coverage, required),
        "all rows by tag (a row may have several):",
        *(line(f"{tag} {name}", coverage, [row for row in rows if tag in row.tags]) for tag, name in TAGS.items()),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kips", description=__doc__)
    parser.add_argument("--slow", action="store_true", help="run the citing tests on a real Kafka and Spark too")
    parser.add_argument("--open", action="store_true", help="print the facts of the open rows instead of their numbers")
    options = parser.parse_args()
    citations = Citations(slow=options.slow)
    code = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "tests"], plugins=[citations])
    coverage = evaluate(*repository_lists(), citations.of, citations.passed)

    lines = ["", *table(coverage)]
    if citations.collected:
        slow = f"{len(citations.collected)} citing tests need a real Kafka or Spark"
        lines.append(f"{slow}: counted without running them; make test and make test-long run them")
    if options.open:
        lines += ["open:", *(f"  {row.number}  {row.text:<8}  {row.fact}" for row in coverage.open)]
    else:
        lines.append(f"open, {len(coverage.open)}: {' '.join(row.number for row in coverage.open)}")
    lines += [f"fault: {fault}" for fault in coverage.faults]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if coverage.faults or code != pytest.ExitCode.OK else 0


if __name__ == "__main__":
    sys.exit(main())
