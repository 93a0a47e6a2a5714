"""The configuration may give a rule another severity or turn it off: in the one evaluation, not in a view of it."""

from dataclasses import replace

import pytest

from rules.alert import Alert
from rules.evaluate import evaluate, thresholds_for, with_overrides
from rules.finding import Evaluation, NotApplicable, Rule, Severity, Thresholds, hold
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.rule_evaluator import RuleEvaluator
from tests.unit.rules.situation import healthy, name_not_found, with_broker

LOST_ENDPOINT = name_not_found(healthy(), 2)
RULE = "stale-voter-endpoint"


def severities(overrides: dict[str, Thresholds]) -> set[Severity]:
    evaluation = evaluate(LOST_ENDPOINT, with_overrides(thresholds_for({}), overrides))
    return {finding.severity for finding in evaluation.findings if finding.rule == RULE}


@pytest.mark.parametrize("severity", Severity)
def test_every_finding_of_a_rule_has_the_configured_severity(severity: Severity) -> None:
    assert severities({RULE: Thresholds(severity=severity)}) == {severity}
    assert severities({"no-leader": Thresholds(severity=severity)}) == severities({})


def test_rule_that_is_turned_off_is_not_applicable_instead_of_healthy() -> None:
    thresholds = with_overrides(thresholds_for({}), {RULE: Thresholds(enabled=False)})

    evaluation = evaluate(LOST_ENDPOINT, thresholds)

    assert RULE not in {finding.rule for finding in evaluation.findings}
    assert NotApplicable(rule=RULE, why="disabled by the configuration") in evaluation.not_applicable


def test_alert_of_a_rule_that_is_turned_off_does_not_resolve_as_if_its_condition_were_over() -> None:
    fenced, on = with_broker(healthy(), 101, fenced=True), thresholds_for({"broker-fenced.hold": 0})
    off = with_overrides(on, {"broker-fenced": Thresholds(enabled=False)})
    tracked, (firing,) = advance(TrackedConditions(), evaluate(fenced, on), fenced, on)
    assert firing.rule == "broker-fenced"
    resolutions: list[Alert] = []

    for seconds in (1, 11):
        later = replace(fenced, now_ms=Millis(fenced.now_ms + 1_000 * seconds))
        tracked, resolved_now = advance(tracked, evaluate(later, off), later, off)
        resolutions += resolved_now

    (resolved,) = resolutions
    assert resolved.summary == "Rule broker-fenced is not evaluated any more: disabled by the configuration."


FAILING = Rule(id="broken", title="", text="", hold=hold(1), evaluate=lambda _quorum, _: 1 / 0)  # type: ignore[arg-type, return-value]
"""A rule that raises: `monitor-blind` reports it."""


def failed_rule(override: Thresholds) -> Evaluation:
    thresholds = with_overrides(thresholds_for({}), {"monitor-blind": override})
    return evaluate(healthy(), {**thresholds, "broken": Thresholds()}, rules=[FAILING])


def test_rule_that_failed_is_unknown_and_makes_no_finding_where_monitor_blind_is_turned_off() -> None:
    evaluation = failed_rule(Thresholds(enabled=False))

    assert evaluation.findings == ()
    assert [each.rule for each in evaluation.unknown] == list(evaluation.failed) == ["broken"]


def test_evaluator_that_skips_unchanged_rules_applies_the_overrides() -> None:
    overrides = {RULE: Thresholds(severity=Severity.INFO), "failure-tolerance": Thresholds(enabled=False)}
    thresholds = with_overrides(thresholds_for({}), overrides)
    evaluator = RuleEvaluator(thresholds)

    for second in range(40):
        quorum = replace(LOST_ENDPOINT, now_ms=Millis(LOST_ENDPOINT.now_ms + second * 1_000))
        assert evaluator.evaluate(quorum) == evaluate(quorum, thresholds)
