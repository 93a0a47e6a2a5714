"""Subjects as values, and their texts."""

import pytest

from rules.finding import NotApplicable, RuleResult
from rules.model.job_state import JobState
from rules.model.quorum import Quorum
from rules.model.subject import NAMED, NO_NODE, Subject
from tests.situation.case import Case, all_cases, evaluated


def results(observed: Quorum | JobState) -> list[RuleResult]:
    evaluation = evaluated(observed)
    return [*evaluation.findings, *evaluation.unknown]


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_the_text_of_each_subject_names_it(case: Case) -> None:
    """An alert keeps only the text, and is resolved by the rule that it names."""
    for observed in case.observed():
        for result in results(observed):
            if not isinstance(result, NotApplicable) and result.subject is not None:
                assert Subject.of(str(result.subject)) == result.subject


@pytest.mark.parametrize("kind", NAMED)
def test_a_name_follows_its_kind(kind: str) -> None:
    assert Subject.of(f"{kind} a b") == Subject(kind, "a b")
    assert Subject.of(f"former {kind}") == Subject(f"former {kind}")


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("controller 2", 2),
        ("observer 4-Ab3cD", 4),
        ("broker 101", 101),
        ("quorum", NO_NODE),
        ("topic 7", NO_NODE),
        ("epoch 7", NO_NODE),
        ("voter \u00b2", NO_NODE),
        ("voter x", NO_NODE),
        ("voter", NO_NODE),
    ],
)
def test_only_the_subject_that_is_a_node_has_its_id(text: str, node: int) -> None:
    assert Subject.of(text).node == node
