"""Generated documents and schemas are up to date, and the rules' pages hold every word of the docstrings."""

from pathlib import Path

import pytest

from rules.evaluate import ALL_RULES
from rules.rule import Rule
from rules.rule_page import page_of
from tests.generated_files import ROOT, generated
from tests.rule_pages import PAGES, linked

EXPECTED = generated()


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_generated_file_is_up_to_date(path: Path) -> None:
    assert path.exists(), "run `make goldens`"
    assert path.read_text(encoding="utf-8") == EXPECTED[path], "run `make goldens` and read the difference"


def test_every_page_has_a_rule() -> None:
    assert {*PAGES.iterdir()} <= {*EXPECTED}, "a page without a rule: delete it"


@pytest.mark.parametrize("rule", ALL_RULES.values(), ids=lambda rule: rule.id)
def test_page_contains_every_word_of_the_docstring(rule: Rule) -> None:
    page = page_of(rule)
    parsed = [page.lead, *(part for section in page.sections.items() for part in section)]

    assert " ".join(parsed).split() == rule.text.split()


def test_other_rules_are_links_and_the_rule_itself_is_not() -> None:
    rule = ALL_RULES["no-leader"]

    assert linked("`no-leader`, or `monitor-blind`", of=rule) == "`no-leader`, or [`monitor-blind`](monitor-blind.md)"
    assert linked("`kraftwatch check`", of=rule) == "`kraftwatch check`"
