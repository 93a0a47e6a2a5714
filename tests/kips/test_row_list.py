"""The rows: when a row is covered, and the errors in citations."""

import subprocess
import sys

import pytest

from tests.kips.citations import cited_in, marks_without_test
from tests.kips.rows import evaluate, read_excuses, read_rows, repository_lists

ROWS = read_rows(f"A00{n}  KIP-1     {tags:<4}  a fact" for n, tags in enumerate(["M", "R", "AT", "S", "S", "X"], 1))


def cited(**tests: str) -> dict[str, frozenset[str]]:
    return {test: frozenset(numbers.split()) for test, numbers in tests.items()}


def test_a_row_with_a_passed_test_is_covered_and_a_required_row_without_one_is_open() -> None:
    coverage = evaluate(ROWS, {"A002": "why"}, cited(test_one="A001 A006"), frozenset({"test_one"}))

    assert sorted(coverage.covered) == ["A001", "A006"]
    assert coverage.faults == tuple(
        f"{number} is open: cite it in a test, or excuse it in not-covered.md (a fact)"
        for number in ("A003", "A004", "A005")
    )
    assert [row.number for row in coverage.open] == ["A003", "A004", "A005"], "A006 is not required"
    assert coverage.counts(ROWS.values()) == (2, 1, 6)


REST = cited(test_rest="A001 A002 A003 A004 A005")
"""Cites every required row."""


@pytest.mark.parametrize(
    ("citations", "reasons", "fault"),
    [
        (cited(test_one="A009"), {}, "test_one cites A009, which is not a row"),
        (cited(test_two="A001"), {}, "test_two cites A001 and did not pass"),
        (cited(test_one="A001", test_two="A001"), {}, "test_two cites A001 and did not pass"),
        (cited(test_one="A001"), {"A006": "why", "A009": "why"}, "A009 is excused and is not a row"),
        (cited(test_one="A006"), {"A006": "why"}, "A006 is cited by test_one and excused"),
    ],
)
def test_an_error_in_the_citations_is_reported(
    citations: dict[str, frozenset[str]], reasons: dict[str, str], fault: str
) -> None:
    coverage = evaluate(ROWS, reasons, {**REST, **citations}, frozenset({"test_one", "test_rest"}))

    assert coverage.faults == (fault,)


def test_excuses_for_more_than_a_quarter_of_the_required_rows_are_reported() -> None:
    cited_rows = cited(test_one="A003 A004 A005")

    faults = evaluate(ROWS, {"A001": "why", "A002": "why"}, cited_rows, frozenset({"test_one"})).faults

    assert faults == ("2 of 5 required rows are excused: at most a quarter is allowed",)


def test_a_required_row_needs_a_test_of_the_product_and_another_one_does_not() -> None:
    citations, tests = {**REST, **cited(test_simulated="A001 A006")}, frozenset({"test_rest", "test_simulated"})
    assert evaluate(ROWS, {}, citations, tests, simulated=frozenset({"test_simulated"})).faults == ()

    coverage = evaluate(ROWS, {}, {**citations, **cited(test_rest="A002 A003 A004 A005")}, tests, tests - {"test_rest"})

    assert coverage.faults == ("A001 is cited by tests of the simulated quorum only: cite it in a test of the product",)
    assert "A006" in coverage.covered
    assert [row.number for row in coverage.open] == ["A001"]


def test_a_row_with_a_failed_test_is_not_covered() -> None:
    coverage = evaluate(ROWS, {}, cited(test_one="A001", test_two="A001"), frozenset({"test_one"}))

    assert coverage.covered == frozenset()


@pytest.mark.parametrize("line", ["A1  KIP-1  M  short", "A001  KIP-1  Q  no such tag", "A001 KIP-1 M"])
def test_an_invalid_row_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a row"):
        read_rows([line])


def test_an_excuse_needs_a_reason_and_is_unique() -> None:
    assert read_excuses(["words", "- A001, A002: why"]) == {"A001": "why", "A002": "why"}
    with pytest.raises(ValueError, match="not an excuse"):
        read_excuses(["- A001:"])
    with pytest.raises(ValueError, match="A001 is excused twice"):
        read_excuses(["- A001: why", "- A001: why not"])


def test_the_lists_of_this_repository_are_consistent() -> None:
    rows, reasons = repository_lists()

    assert len(rows) == 495
    assert sum(row.required for row in rows.values()) == 424
    everything = {"test": frozenset(rows.keys() - reasons.keys())}
    assert evaluate(rows, reasons, everything, frozenset({"test"})).faults == ()


MODULE = """
import pytest

class TestCited:
    @pytest.mark.kip("A001", "A004")
    def test_one(self):
        pass

@pytest.mark.kip("A002")
def helper():
    pass
"""


def test_a_citation_on_no_collected_test_is_reported() -> None:
    assert cited_in(MODULE) == {"A001", "A002", "A004"}

    citations = cited(**{"tests/cited.py::TestCited::test_one": "A001 A004"})
    lost = list(marks_without_test({"tests/cited.py": MODULE}, citations))

    assert lost == ["tests/cited.py cites A002 on no test that is collected"]


@pytest.mark.parametrize("workers", [0, 2])
def test_make_test_fails_for_a_row_that_no_test_covers_in_one_process_and_in_several(workers: int) -> None:
    """This file cites no row, so that all rows are open for a run of it alone."""
    command = [sys.executable, "-m", "pytest", "--rows", f"--numprocesses={workers}", "-p", "no:cacheprovider", "-q"]

    ended = subprocess.run(
        [*command, "-k", "test_an_invalid_row_is_refused", __file__], capture_output=True, text=True, check=False
    )

    assert ended.returncode == 1
    assert "3 passed" in ended.stdout
    assert "rows: A004 is open: cite it in a test, or excuse it in not-covered.md" in ended.stdout
    assert "rows: A001 is cited" not in ended.stdout
