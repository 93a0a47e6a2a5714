"""The cases of every rule, and what holds in each of them: `tests.situation.case` has their form.

`make goldens` writes their output: read it. What a case describes is built once for all tests of this file.
"""

import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle

import pytest

from connectors.sinks.alert_json import to_line
from rules.alert import AlertState
from rules.claims.claim import YES, condition_claim
from rules.claims.statement import claims_of
from rules.evaluate import ALL_RULES, JOB_RULES, RULES
from rules.finding import Finding, Severity, UnknownResult
from rules.formatting import visible
from rules.model.job_state import JobState
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.step import Step
from tests.agreement import text
from tests.golden_file import assert_golden
from tests.remedy_conflicts import conflicts
from tests.situation.case import CASES, Case, alerts_of, cases_of_rule, evaluated, file_text
from tests.unit.connectors.sinks.sink_alerts import ALERT_SCHEMA, NOON_MS
from tests.unit.rules.hidden_text import EVIL, LINE_BREAKS, OTHERS, texts, with_hosts

TOOLS = (
    "acls cluster configs features log-dirs metadata-quorum reassign-partitions server-start server-stop storage topics"
)
_NODE = r"(brokers?|controllers?|nodes?) \d"
_ACTS = re.compile(
    rf"# .*(re)?(start|stop) {_NODE}|# .*{_NODE}.* (re)?(start|stop) (it|them)\b|kafka-(metadata-quorum|features)\.sh ",
    re.IGNORECASE,
)
_NO_STEP = re.compile(r'# (To stop broker|If it .* unregister|If broker .* wait and do not restart it|")')
"""How a broker is stopped, what is done with one that does not come back or is about to, and what a log says."""
COMMAND = re.compile(rf"kafka-({TOOLS.replace(' ', '|')})\.sh ")


@pytest.mark.parametrize("rule", ALL_RULES)
def test_cases_of_the_rule_have_this_output(rule: str) -> None:
    path = CASES / f"{rule}.txt"
    assert_golden(path, file_text(path))


def test_every_file_of_cases_is_named_after_a_rule() -> None:
    assert {path.stem for path in CASES.iterdir()} == {*ALL_RULES}


@pytest.mark.parametrize("rule", ALL_RULES)
def test_cases_show_the_rule_silent_with_each_severity_as_a_text_and_resolved(rule: str) -> None:
    """Each severity that the source of the rule names is one that a case shows; no evaluation is a case alone."""
    declared = RULES.get(rule) or JOB_RULES[rule]
    source = inspect.getsource(sys.modules[declared.evaluate.__module__])
    cases = cases_of_rule(rule)
    texts = [line for case in cases if {"text", "evidence"} & {*case.commands} for line in case.output()]
    shown = {line.split()[0] for line in texts if not line.startswith(" ")}

    assert {one.value for one in Severity if f"Severity.{one.name}" in source} <= shown
    lines = [line for case in cases for line in case.output()]
    assert any(line.endswith("nothing") for line in lines)
    assert any("resolved " in line for line in lines)


def observed_in_cases(rule: str) -> Iterator[tuple[Case, Quorum | JobState]]:
    """Yields what each case of the rule describes, with the case."""
    for case in cases_of_rule(rule):
        for observed in case.observed():
            yield case, observed


@pytest.mark.parametrize("rule", ALL_RULES)
def test_each_step_of_a_remedy_is_one_command_or_one_sentence(rule: str) -> None:
    for case, observed in observed_in_cases(rule):
        for step in (step for finding in evaluated(observed).findings for step in finding.remedy):
            assert "\n" not in step, case.id
            if step.startswith("# "):
                assert ". " not in f"{step} ", f"{case.id}: more than one sentence, or a full stop at the end: {step}"
            else:
                assert COMMAND.match(step), f"{case.id}: {step}"
            assert "$BOOTSTRAP" not in step, case.id
            assert {part.removesuffix(":") for part in step.split() if part.startswith("$")} <= {"$NODE_PROPERTIES"}


@pytest.mark.parametrize("rule", ALL_RULES)
def test_remedies_agree(rule: str) -> None:
    for case, observed in observed_in_cases(rule):
        assert conflicts(evaluated(observed).findings) == [], case.id


@pytest.mark.parametrize("rule", ALL_RULES)
def test_a_step_that_starts_or_stops_a_node_or_needs_a_leader_says_so_as_a_value(rule: str) -> None:
    for case, observed in observed_in_cases(rule):
        steps = (step for finding in evaluated(observed).findings for step in finding.remedy)
        read = [step for step in steps if not isinstance(step, Step) and _ACTS.match(step)]
        assert [step for step in read if not _NO_STEP.match(step)] == [], case.id


@pytest.mark.parametrize("rule", ALL_RULES)
def test_outputs_do_not_contradict_themselves(rule: str) -> None:
    assert {case.id: found for case in cases_of_rule(rule) if (found := text.of_case(case))} == {}


@pytest.mark.parametrize("rule", ALL_RULES)
def test_the_text_of_each_subject_names_it(rule: str) -> None:
    """An alert keeps only the text, and is resolved by the rule that it names."""
    for case, observed in observed_in_cases(rule):
        evaluation = evaluated(observed)
        results: list[Finding | UnknownResult] = [*evaluation.findings, *evaluation.unknown]
        for result in results:
            if result.subject is not None:
                assert Subject.of(str(result.subject)) == result.subject, case.id


@pytest.mark.parametrize("rule", ALL_RULES)
def test_a_name_with_hidden_characters_stays_on_its_line_and_is_in_no_command(rule: str) -> None:
    for case, observed in observed_in_cases(rule):
        hidden = (LINE_BREAKS + OTHERS)[case.number % len(LINE_BREAKS + OTHERS)]

        evaluation = evaluated(with_hosts(observed, hidden))

        assert {one.rule for one in evaluation.findings} == {one.rule for one in evaluated(observed).findings}, case.id
        for each in texts([evaluation.findings, evaluation.unknown, evaluation.not_applicable]):
            assert each == visible(each), case.id
        commands = [step for one in evaluation.findings for step in one.remedy if not step.startswith("#")]
        assert [step for step in commands if EVIL in step] == [], case.id


@pytest.mark.parametrize("rule", ALL_RULES)
def test_each_finding_claims_that_its_condition_lasts_and_what_its_text_says(rule: str) -> None:
    found = [one for _, observed in observed_in_cases(rule) for one in evaluated(observed).findings]
    assert all(one.claims[0] == condition_claim(one.subject, YES) for one in found)
    assert all({*claims_of((one.summary, *one.remedy))} <= {*one.claims} for one in found)


@pytest.mark.parametrize("rule", ALL_RULES)
def test_the_schema_accepts_each_alert(rule: str) -> None:
    written = (alert for _, observed in observed_in_cases(rule) for alert in alerts_of(observed))
    for alert, state in zip(written, cycle(AlertState)):
        ALERT_SCHEMA.validate(json.loads(to_line(replace(alert, state=state), NOON_MS)))
