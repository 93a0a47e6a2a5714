"""The pages in docs/rules are up to date: texts from the docstrings, thresholds from the rules."""

import pytest

from rules.evaluate import RULES
from rules.finding import Rule
from rules.rule_page import page_of
from tests.rule_pages import PAGES, linked, pages

EXPECTED = pages()


@pytest.mark.parametrize("name", EXPECTED)
def test_page_is_up_to_date(name: str) -> None:
    page = PAGES / name
    assert page.exists(), "run `make goldens`"
    assert page.read_text() == EXPECTED[name], "run `make goldens` and read the difference"


def test_every_page_has_a_rule() -> None:
    assert {path.name for path in PAGES.iterdir()} <= set(EXPECTED), "a page without a rule: delete it"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_page_contains_every_word_of_the_docstring(rule: Rule) -> None:
    page = page_of(rule)
    parsed = [page.lead, *(part for section in page.sections.items() for part in section)]

    assert " ".join(parsed).split() == rule.text.split()


def test_other_rules_are_links_and_the_rule_itself_is_not() -> None:
    rule = RULES["no-leader"]

    assert linked("`no-leader`, or `monitor-blind`", of=rule) == "`no-leader`, or [`monitor-blind`](monitor-blind.md)"
    assert linked("`kraftwatch check`", of=rule) == "`kraftwatch check`"
