"""A name from a cluster, such as a host's, stays on its line in every result of a rule, and in no command."""

import pytest

from rules.evaluate import resolved_text
from rules.facts.quorum import Facts
from rules.finding import Finding
from rules.formatting import printable_step, visible
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from tests.situation.case import evaluated
from tests.situation.commands import situation
from tests.unit.rules.hidden_text import EVIL, LINE_BREAKS, OTHERS, fired, texts, with_hosts

NAME_LOST = situation("probe 2 name-not-found")


def stale(quorum: Quorum) -> Finding:
    (finding,) = (one for one in evaluated(quorum).findings if one.rule == "stale-voter-endpoint")
    return finding


@pytest.mark.parametrize("hidden", LINE_BREAKS + OTHERS, ids=ascii)
def test_a_command_with_a_hidden_character_is_a_sentence_that_says_why(hidden: str) -> None:
    finding = stale(with_hosts(NAME_LOST, hidden))

    (why,) = [step for step in finding.remedy if "is not printed" in step]
    assert why.startswith("# The command kafka-metadata-quorum.sh of this step is not printed: ")
    assert visible(f"c1{hidden}") in why or visible(f"c3{hidden}") in why


def test_a_command_without_a_hidden_character_is_unchanged() -> None:
    assert all(printable_step(step) == step for step in stale(NAME_LOST).remedy)
    assert printable_step("# Schön – ☃") == "# Schön – ☃"


@pytest.mark.parametrize("hidden", LINE_BREAKS, ids=ascii)
def test_the_text_of_a_resolved_alert_stays_on_its_line(hidden: str) -> None:
    hostile = Facts(with_hosts(situation(), hidden))
    assert f"c2{visible(hidden)}" in resolved_text("stale-voter-endpoint", Subject("voter", 2), hostile)
    for rule in ("no-leader", "views-disagree", "unclean-election", "partition-stuck-recovering", "broker-fenced"):
        text = resolved_text(rule, Subject("topic", f"a{hidden}b"), hostile)
        assert text == visible(text)


def test_an_alert_has_the_texts_of_its_finding() -> None:
    alert = fired(with_hosts(situation("probe 1,2,3 name-not-found"), "\n"))
    assert EVIL in alert.summary or any(EVIL in text for text in texts(alert.evidence))
    assert all(text == visible(text) for text in texts(alert))


def test_a_finding_is_the_same_object_of_data_after_its_texts_are_escaped() -> None:
    """Evidence keeps its types: numbers, lists, and objects."""
    plain, hostile = stale(NAME_LOST), stale(with_hosts(NAME_LOST, "\n"))
    assert isinstance(hostile, Finding)
    assert [type(each) for each in hostile.evidence.values()] == [type(each) for each in plain.evidence.values()]
