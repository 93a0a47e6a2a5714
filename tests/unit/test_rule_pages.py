"""The pages in docs/rules are up to date: texts and thresholds from the docstrings."""

import re

import pytest

from rules.evaluate import RULES
from rules.finding import Rule
from rules.rule_page import page_of
from tests.rule_pages import PAGES, linked, pages

EXPECTED = pages()
UNITS = {"s": 1, "min": 60, "h": 3600}


@pytest.mark.parametrize("name", EXPECTED)
def test_page_is_up_to_date(name: str) -> None:
    page = PAGES / name
    assert page.exists(), "run `make goldens`"
    assert page.read_text() == EXPECTED[name], "run `make goldens` and read the difference"


def test_every_page_has_a_rule() -> None:
    assert {path.name for path in PAGES.iterdir()} <= set(EXPECTED), "a page without a rule: delete it"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_text_names_every_threshold_with_its_default(rule: Rule) -> None:
    defaults = {each.name: each.default for each in rule.thresholds}
    (text,) = (section.text for section in page_of(rule).sections if section.heading == "Thresholds")

    written = re.findall(rf"\b({'|'.join(defaults)})\s+\((\d+)(?:\s+(s|min|h)\b)?", text)
    documented = {name: int(number) * UNITS.get(unit, 1) for name, number, unit in written}

    assert documented == defaults


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_page_contains_every_word_of_the_docstring(rule: Rule) -> None:
    page = page_of(rule)
    parsed = [page.lead, *(part for section in page.sections for part in (section.heading, section.text))]

    assert " ".join(parsed).split() == rule.text.split()


def test_other_rules_are_links_and_the_rule_itself_is_not() -> None:
    rule = RULES["no-leader"]

    assert linked("`no-leader`, or `monitor-blind`", of=rule) == "`no-leader`, or [`monitor-blind`](monitor-blind.md)"
    assert linked("`kraftwatch check`", of=rule) == "`kraftwatch check`"
