"""Subjects as values, and their texts."""

import pytest

from rules.model.subject import NAMED, NO_NODE, Subject


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
