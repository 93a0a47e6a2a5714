"""`make rows`: run the tests that cite rows, and print how many rows are covered, by text and by tag."""

import argparse
import sys
from collections.abc import Iterable

import pytest

from tests.kips.citations import Citations
from tests.kips.rows import KipRow, RowCoverage

TAGS = {"M": "decode", "R": "replay", "A": "alert", "S": "show", "T": "simulate", "X": "beyond"}


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
    citations = Citations()
    chosen = "kip" if options.slow else "kip and not lab and not spark"
    code = pytest.main(["-q", "--no-header", "-p", "no:cacheprovider", "-m", chosen, "tests"], plugins=[citations])
    coverage = citations.coverage

    lines = ["", *table(coverage)]
    if citations.left_out:
        slow = f"{len(citations.left_out)} citing tests need a real Kafka or Spark"
        lines.append(f"{slow}: counted without running them; make test and make test-long run them")
    if options.open:
        lines += ["open:", *(f"  {row.number}  {row.text:<8}  {row.fact}" for row in coverage.open)]
    else:
        lines.append(f"open, {len(coverage.open)}: {' '.join(row.number for row in coverage.open)}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if code == pytest.ExitCode.OK else 1


if __name__ == "__main__":
    sys.exit(main())
