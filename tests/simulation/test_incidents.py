"""Each rule in an incident of a healthy simulated quorum: its alert fires in time, no other does, and it resolves.

The same incident finds an error that is planted in the rule.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import cast

import pytest

from rules.evaluate import RULES
from rules.finding import Finding, Rule, RuleResult, Thresholds
from rules.model.quorum import Quorum
from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.incident_trace import IncidentTrace, traced_incident
from tests.simulation.incidents import INCIDENTS

Results = list[RuleResult]


@cache
def traced(name: str, seed: int = 1) -> IncidentTrace:
    return traced_incident(INCIDENTS[name], seed)


def silent() -> Callable[[Results], Results]:
    return lambda results: [each for each in results if not isinstance(each, Finding)]


def never_clears() -> Callable[[Results], Results]:
    """What the rule has found once, it finds forever."""
    found: dict[str, Finding] = {}

    def kept(results: Results) -> Results:
        found.update({each.subject: each for each in results if isinstance(each, Finding)})
        return [*(each for each in results if not isinstance(each, Finding)), *found.values()]

    return kept


def wrong_subject() -> Callable[[Results], Results]:
    return lambda results: [
        replace(each, subject=f"another than {each.subject}") if isinstance(each, Finding) else each for each in results
    ]


@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_fires_the_alerts_of_its_rules_and_no_other_and_they_resolve(name: str) -> None:
    trace = traced(name)

    trace.check()

    assert {one.rule for one in trace.expected} == {*INCIDENTS[name].rules}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 21))
@pytest.mark.parametrize("name", INCIDENTS)
def test_an_incident_with_other_seeds(name: str, seed: int) -> None:
    traced_incident(INCIDENTS[name], seed).check()


@pytest.mark.parametrize("error", [silent, never_clears, wrong_subject])
@pytest.mark.parametrize("rule", RULES)
def test_an_incident_finds_an_error_of_any_rule(
    rule: str, error: Callable[[], Callable[[Results], Results]], monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = traced(next(name for name, incident in INCIDENTS.items() if rule in incident.rules))
    whole, change = RULES[rule], error()

    def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        return change(list(whole.evaluate(quorum, thresholds)))

    monkeypatch.setitem(cast("dict[str, Rule]", RULES), rule, replace(whole, evaluate=evaluate))

    with pytest.raises(BrokenInvariant, match=f"{rule} of "):
        trace.check()
