"""The rows: when a row is covered, and the errors in citations."""

import pytest

from tests.kips.rows import evaluate, read_excuses, read_rows, repository_lists

ROWS = read_rows(f"A00{n}  KIP-1     {tags:<4}  a fact" for n, tags in enumerate(["M", "R", "AT", "S", "S", "X"], 1))


def cited(**tests: str) -> dict[str, frozenset[str]]:
    return {test: frozenset(numbers.split()) for test, numbers in tests.items()}


def test_a_row_with_a_passed_test_is_covered_and_a_required_row_without_one_is_open() -> None:
    coverage = evaluate(ROWS, {"A002": "why"}, cited(test_one="A001 A006"), frozenset({"test_one"}))

    assert sorted(coverage.covered) == ["A001", "A006"]
    assert coverage.faults == ()
    assert [row.number for row in coverage.open] == ["A003", "A004", "A005"], "A006 is not required"
    assert coverage.counts(ROWS.values()) == (2, 1, 6)


@pytest.mark.parametrize(
    ("citations", "reasons", "fault"),
    [
        (cited(test_one="A009"), {}, "test_one cites A009, which is not a row"),
        (cited(test_two="A001"), {}, "test_two cites A001 and did not pass"),
        (cited(test_one="A001", test_two="A001"), {}, "test_two cites A001 and did not pass"),
        (cited(test_one="A001"), {"A001": "why"}, "A001 is cited by test_one and excused"),
        ({}, {"A009": "why"}, "A009 is excused and is not a row"),
        ({}, {"A001": "why", "A002": "why"}, "2 of 5 required rows are excused: at most a quarter is allowed"),
    ],
)
def test_an_error_in_the_citations_is_reported(
    citations: dict[str, frozenset[str]], reasons: dict[str, str], fault: str
) -> None:
    coverage = evaluate(ROWS, reasons, citations, frozenset({"test_one"}))

    assert coverage.faults == (fault,)
    assert not coverage.covered or "test_one" in citations


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
    assert evaluate(rows, reasons, {}, frozenset()).faults == ()
