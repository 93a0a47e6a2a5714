"""The rows hold themselves: what counts as covered, and what is a fault."""

import pytest

from tests.kips.rows import evaluate, excused, here, known

ROWS = known(f"A00{n}  KIP-1     {tags:<4}  a fact" for n, tags in enumerate(["M", "R", "AT", "S", "S", "X"], 1))


def cited(**tests: str) -> dict[str, frozenset[str]]:
    return {test: frozenset(numbers.split()) for test, numbers in tests.items()}


def test_a_row_is_covered_by_a_test_that_passed_and_what_is_owed_and_is_neither_is_open() -> None:
    verdict = evaluate(ROWS, {"A002": "why"}, cited(test_one="A001 A006"), frozenset({"test_one"}))

    assert sorted(verdict.covered) == ["A001", "A006"]
    assert verdict.faults == ()
    assert [row.number for row in verdict.open] == ["A003", "A004", "A005"], "A006 is beyond a monitor: owed nothing"
    assert verdict.counts(ROWS.values()) == (2, 1, 6)


@pytest.mark.parametrize(
    ("citations", "reasons", "fault"),
    [
        (cited(test_one="A009"), {}, "test_one cites A009, which is no row"),
        (cited(test_two="A001"), {}, "test_two cites A001 and did not pass"),
        (cited(test_one="A001", test_two="A001"), {}, "test_two cites A001 and did not pass"),
        (cited(test_one="A001"), {"A001": "why"}, "A001 is cited by test_one and excused"),
        ({}, {"A009": "why"}, "A009 is excused and is no row"),
        ({}, {"A001": "why", "A002": "why"}, "2 of 5 owed rows are excused: a quarter at most"),
    ],
)
def test_a_fault_is_told(citations: dict[str, frozenset[str]], reasons: dict[str, str], fault: str) -> None:
    verdict = evaluate(ROWS, reasons, citations, frozenset({"test_one"}))

    assert verdict.faults == (fault,)
    assert not verdict.covered or "test_one" in citations


def test_a_row_that_one_of_its_tests_did_not_show_is_not_covered() -> None:
    verdict = evaluate(ROWS, {}, cited(test_one="A001", test_two="A001"), frozenset({"test_one"}))

    assert verdict.covered == frozenset()


@pytest.mark.parametrize("line", ["A1  KIP-1  M  short", "A001  KIP-1  Q  no such tag", "A001 KIP-1 M"])
def test_what_is_no_row_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a row"):
        known([line])


def test_nothing_is_excused_without_a_reason_nor_twice() -> None:
    assert excused(["words", "- A001, A002: why"]) == {"A001": "why", "A002": "why"}
    with pytest.raises(ValueError, match="not an excuse"):
        excused(["- A001:"])
    with pytest.raises(ValueError, match="A001 is excused twice"):
        excused(["- A001: why", "- A001: why not"])


def test_the_lists_of_this_repository_are_whole() -> None:
    rows, reasons = here()

    assert len(rows) == 495
    assert sum(row.owed for row in rows.values()) == 424
    assert evaluate(rows, reasons, {}, frozenset()).faults == ()
