"""No rule without a scene: what the table in tests/rule_scenarios.py names is there and speaks of the rule."""

import ast
import re
from pathlib import Path

import pytest

from rules.evaluate import RULES
from streaming.demo.scenarios import SCENARIOS as DEMO_SCENARIOS
from tests.rule_scenarios import DEMO, ROOT, SCENES

DEMO_RULES = {expected.rule for scenario in DEMO_SCENARIOS for expected in scenario.expected}
PLACES = sorted({(rule, state, place) for rule, each in SCENES.items() for state, place in each.places}, key=str)


def test_every_rule_has_a_scene() -> None:
    assert set(SCENES) == set(RULES), "a rule without a row in tests/rule_scenarios.py, or a row without its rule"


@pytest.mark.parametrize(("rule", "state", "place"), PLACES)
def test_the_scene_is_there_and_speaks_of_the_rule(rule: str, state: str, place: str) -> None:
    file, _, name = place.partition("::")
    text = (ROOT / file).read_text()

    if file.endswith(".txt"):
        assert re.search(rf"^\d+s {state} \w+ {rule} ", text, re.MULTILINE)
        return
    assert "pytest.mark.lab" in text, "a real quorum is alerts by its marker"
    assert place == DEMO or f'"{rule}"' in function(ROOT / file, name)
    assert place != DEMO or rule in DEMO_RULES


@pytest.mark.parametrize("rule", SCENES)
def test_what_is_simulated_says_why(rule: str) -> None:
    assert SCENES[rule].is_real == (SCENES[rule].why == "")


def function(path: Path, name: str) -> str:
    """The source of one test."""
    source = path.read_text()
    (found,) = (each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef) and each.name == name)
    return ast.get_source_segment(source, found) or ""
