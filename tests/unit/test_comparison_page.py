"""The table of faults in docs/comparison.md is rendered from docs/evaluation.json; every fault went as expected."""

import json
from typing import Any

import pytest

from tests.evaluation.comparison_page import BEGIN, END, PAGE, RESULTS, page_with
from tests.evaluation.quorum_faults import FAULTS

STORED: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
RENDERED = "python -m tests.evaluation.comparison_page"


def test_table_is_rendered_from_the_stored_results() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page_with(text, STORED) == text, RENDERED
    assert text.count(BEGIN) == text.count(END) == 1


def test_another_result_changes_the_table() -> None:
    changed = json.loads(json.dumps(STORED))
    changed["faults"][0]["texts"][0]["after_hold_s"] = 123_456.7

    assert "123456.7 s" in page_with(PAGE.read_text(encoding="utf-8"), changed)


def test_every_fault_was_evaluated() -> None:
    assert [fault["name"] for fault in STORED["faults"]] == [fault.name for fault in FAULTS], "make evaluate"


@pytest.mark.parametrize("number", range(len(FAULTS)), ids=lambda number: FAULTS[number].name)
def test_stored_fault_went_as_expected(number: int) -> None:
    stored, fault = STORED["faults"][number], FAULTS[number]

    assert stored["problems"] == []
    assert stored["notifications"] == fault.notifications
    assert stored["views"]["differences"] == []


def test_results_name_no_path_of_the_machine() -> None:
    assert "/tmp/" not in json.dumps(STORED)
    assert "/work/" not in json.dumps(STORED)
