"""The cases of every rule: `tests.situation.case` has their form. `make goldens` writes their output: read it."""

import inspect
import re
import sys

import pytest

from rules.evaluate import ALL_RULES, JOB_RULES, RULES
from rules.finding import Severity
from tests.golden_file import assert_golden
from tests.situation.case import CASES, Case, all_cases, cases_of, evaluated, file_text

TOOLS = "acls cluster features log-dirs metadata-quorum reassign-partitions server-start server-stop storage topics"
COMMAND = re.compile(rf"kafka-({TOOLS.replace(' ', '|')})\.sh ")


@pytest.mark.parametrize("rule", ALL_RULES)
def test_cases_of_the_rule_have_this_output(rule: str) -> None:
    path = CASES / f"{rule}.txt"
    assert_golden(path, file_text(path))


def test_every_file_of_cases_is_named_after_a_rule() -> None:
    assert {path.stem for path in CASES.iterdir()} == {*ALL_RULES}


@pytest.mark.parametrize("rule", ALL_RULES)
def test_cases_show_the_rule_silent_with_each_severity_as_a_text_and_resolved(rule: str) -> None:
    """Each severity that the source of the rule names is one that a case shows; no evaluation is a case alone."""
    declared = RULES.get(rule) or JOB_RULES[rule]
    source = inspect.getsource(sys.modules[declared.evaluate.__module__])
    cases = cases_of(CASES / f"{rule}.txt")
    texts = [line for case in cases if {"text", "evidence"} & {*case.commands} for line in case.output()]
    shown = {line.split()[0] for line in texts if not line.startswith(" ")}

    assert {one.value for one in Severity if f"Severity.{one.name}" in source} <= shown
    lines = [line for case in cases for line in case.output()]
    assert any(line.endswith("nothing") for line in lines)
    assert any("resolved " in line for line in lines)


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_each_step_of_a_remedy_is_one_command_or_one_sentence(case: Case) -> None:
    for observed in case.observed():
        for step in (step for finding in evaluated(observed).findings for step in finding.remedy):
            assert "\n" not in step
            if step.startswith("# "):
                assert ". " not in f"{step} ", f"more than one sentence, or a full stop at the end: {step}"
            else:
                assert COMMAND.match(step), step
            assert "$BOOTSTRAP" not in step
            assert {part.removesuffix(":") for part in step.split() if part.startswith("$")} <= {"$NODE_PROPERTIES"}
