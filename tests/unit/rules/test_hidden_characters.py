"""A name from a cluster, such as a host's, stays on its line in every result of a rule, and in no command."""

from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import pytest

from rules.evaluate import evaluate, resolved_text, thresholds_for
from rules.finding import Finding
from rules.formatting import printable_step, visible
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from tests.unit.rules.situation import evaluation_of, findings, healthy, name_not_found
from tests.unit.rules.test_goldens import CASES

LINE_BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
"""What `str.splitlines` takes as one: more than any terminal or editor does."""
OTHERS = ("\x1b[2K", "\u202e", "\x00", "\u200b")
EVIL = "rm -rf x"


def with_hosts(value: Any, hidden: str, then: str = EVIL) -> Any:
    """Returns the situation with other names of hosts: each has the hidden text, and a command after it."""
    match value:
        case Enum():
            return value
        case str():
            return value.replace(".test", f".test{hidden}{then}")
        case tuple() | frozenset():
            return type(value)(with_hosts(each, hidden, then) for each in value)
        case list():
            return [with_hosts(each, hidden, then) for each in value]
        case dict():
            return {with_hosts(key, hidden, then): with_hosts(each, hidden, then) for key, each in value.items()}
        case _ if is_dataclass(value) and not isinstance(value, type):
            own = {one.name: with_hosts(getattr(value, one.name), hidden, then) for one in fields(value) if one.init}
            return replace(value, **own)
        case _:
            return value


def texts(value: Any) -> list[str]:
    """Returns every text in a result."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for each in pair for text in texts(each)]
        case tuple() | list():
            return [text for each in value for text in texts(each)]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return [text for one in fields(value) for text in texts(getattr(value, one.name))]
        case _:
            return []


@pytest.mark.parametrize("case", CASES)
def test_results_of_every_rule_stay_on_their_lines(case: str) -> None:
    hidden = (LINE_BREAKS + OTHERS)[[*CASES].index(case) % len(LINE_BREAKS + OTHERS)]
    subject, quorum = CASES[case]
    hostile = with_hosts(quorum, hidden)

    evaluation = evaluation_of(hostile)

    rule = case.partition(".")[0]
    found = {(one.rule, one.subject) for one in evaluation.findings}
    assert (rule, visible(with_hosts(subject, hidden))) in found
    for text in texts([evaluation.findings, evaluation.unknown, evaluation.not_applicable]):
        assert text == visible(text)
    commands = [step for each in evaluation.findings for step in each.remedy if not step.startswith("#")]
    assert [step for step in commands if EVIL in step] == []


@pytest.mark.parametrize("hidden", LINE_BREAKS + OTHERS, ids=ascii)
def test_a_command_with_a_hidden_character_is_a_sentence_that_says_why(hidden: str) -> None:
    (finding,) = findings(with_hosts(name_not_found(healthy(), 2), hidden), "stale-voter-endpoint")

    (why,) = [step for step in finding.remedy if "is not printed" in step]
    assert why.startswith("# The command kafka-metadata-quorum.sh of this step is not printed: ")
    assert visible(f"c1.test{hidden}") in why or visible(f"c3.test{hidden}") in why


def test_a_command_without_a_hidden_character_is_unchanged() -> None:
    (before,) = findings(name_not_found(healthy(), 2), "stale-voter-endpoint")
    assert all(printable_step(step) == step for step in before.remedy)
    assert printable_step("# Schön – ☃") == "# Schön – ☃"


@pytest.mark.parametrize("hidden", LINE_BREAKS, ids=ascii)
def test_the_text_of_a_resolved_alert_stays_on_its_line(hidden: str) -> None:
    hostile = with_hosts(healthy(), hidden)
    assert f"c2.test{visible(hidden)}" in resolved_text("stale-voter-endpoint", "voter 2", hostile)
    for rule in ("no-leader", "views-disagree", "unclean-election", "partition-stuck-recovering", "broker-fenced"):
        text = resolved_text(rule, f"topic a{hidden}b", hostile)
        assert text == visible(text)


def fired(quorum: Quorum) -> Any:
    """Returns the first alert that fires when the quorum stays as it is."""
    thresholds = thresholds_for({})
    tracked, alerts = advance(TrackedConditions(), evaluate(quorum, thresholds), quorum, thresholds)
    later = replace(quorum, now_ms=Millis(quorum.now_ms + 3_600_000))
    return (*alerts, *advance(tracked, evaluate(quorum, thresholds), later, thresholds)[1])[0]


def test_an_alert_has_the_texts_of_its_finding() -> None:
    alert = fired(with_hosts(name_not_found(healthy(), 1, 2, 3), "\n"))
    assert EVIL in alert.summary or any(EVIL in text for text in texts(alert.evidence))
    assert all(text == visible(text) for text in texts(alert))


def test_a_finding_is_the_same_object_of_data_after_its_texts_are_escaped() -> None:
    """Evidence keeps its types: numbers, lists, and objects."""
    (plain,) = findings(name_not_found(healthy(), 2), "stale-voter-endpoint")
    (hostile,) = findings(with_hosts(name_not_found(healthy(), 2), "\n"), "stale-voter-endpoint")
    assert isinstance(hostile, Finding)
    assert [type(each) for each in hostile.evidence.values()] == [type(each) for each in plain.evidence.values()]
