"""Every rule has scenarios: each place in the table of tests/rule_scenarios.py exists and names the rule."""

import ast
import re
from pathlib import Path

import pytest

from rules.evaluate import RULES
from streaming.demo.scenarios import SCENARIOS as DEMO_SCENARIOS
from tests.rule_scenarios import DEMO, ROOT, RULE_SCENARIOS

DEMO_RULES = {expected.rule for scenario in DEMO_SCENARIOS for expected in scenario.expected}
PLACES = sorted({(rule, state, place) for rule, each in RULE_SCENARIOS.items() for state, place in each.places})


def test_every_rule_has_a_scenario() -> None:
    assert set(RULE_SCENARIOS) == set(RULES), "a rule without a row in tests/rule_scenarios.py, or a row without a rule"


@pytest.mark.parametrize(("rule", "state", "place"), PLACES)
def test_place_exists_and_names_the_rule(rule: str, state: str, place: str) -> None:
    file, _, name = place.partition("::")
    text = (ROOT / file).read_text()

    if file.endswith(".txt"):
        assert re.search(rf"^\d+s {state} \w+ {rule} ", text, re.MULTILINE)
        return
    assert "pytest.mark.lab" in text, "tests on a real quorum have this marker"
    assert place == DEMO or f'"{rule}"' in source_of(ROOT / file, name)
    assert place != DEMO or rule in DEMO_RULES


@pytest.mark.parametrize("rule", RULE_SCENARIOS)
def test_simulated_scenarios_have_a_reason(rule: str) -> None:
    assert RULE_SCENARIOS[rule].is_real == (RULE_SCENARIOS[rule].why == "")


def source_of(path: Path, name: str) -> str:
    """Returns the source of one test."""
    source = path.read_text()
    (found,) = (each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == name)
    return ast.get_source_segment(source, found) or ""
