"""The page of a rule: its docstring in parts, and sentences about its thresholds and what inhibits it."""

from dataclasses import replace

import pytest

from rules.evaluate import RULES
from rules.finding import Threshold, hold
from rules.rule_page import Page, inhibition_of, page_of, times_of

TEXT = """The quorum has no leader,
and no metadata changes.

What it means
    No controller leads.

    - Critical: at once.
      An outage.

What to do
    Start a controller.
"""


def test_page_has_the_lead_and_the_text_below_each_heading() -> None:
    assert page_of(replace(RULES["no-leader"], text=TEXT)) == Page(
        lead="The quorum has no leader, and no metadata changes.",
        sections={
            "What it means": "No controller leads.\n\n- Critical: at once.\n  An outage.",
            "What to do": "Start a controller.",
        },
    )


@pytest.mark.parametrize(
    ("held", "times"),
    [
        (hold(5), "Fires after the condition has lasted 5 s; resolves after the condition has been absent for 10 s."),
        (
            hold(0.9),
            "Fires after the condition has lasted 900 ms; resolves after the condition has been absent for 10 s.",
        ),
        (hold(0), "Fires at once; resolves after the condition has been absent for 10 s."),
    ],
)
def test_times_are_a_sentence(held: Threshold, times: str) -> None:
    assert times_of(replace(RULES["no-leader"], hold=held)) == times


@pytest.mark.parametrize(
    ("causes", "named"), [(("a",), "`a`"), (("a", "b"), "`a` or `b`"), (("a", "b", "c"), "`a`, `b` or `c`")]
)
def test_inhibition_is_a_sentence_that_names_each_cause(causes: tuple[str, ...], named: str) -> None:
    assert inhibition_of(replace(RULES["no-leader"], inhibited_by=causes)) == (
        f"While {named} has a finding, this rule is inhibited: its result is unknown, firing alerts keep firing."
    )
