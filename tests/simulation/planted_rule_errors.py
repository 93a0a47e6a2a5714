"""Errors of one rule that tests plant in the product, by name: the checks must find each of them, for every rule."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import cast

import pytest

from rules import lifecycle
from rules.evaluate import RULES, thresholds_for
from rules.finding import Finding, Rule, RuleResult, Thresholds
from rules.model.quorum import Quorum
from streaming.replay import cluster_monitor
from tests.simulation.simulated_thresholds import OVERRIDES

Plant = Callable[[pytest.MonkeyPatch, str], None]


def _with_results(
    patched: pytest.MonkeyPatch, rule: str, change: Callable[[list[RuleResult]], Iterable[RuleResult]]
) -> None:
    whole = RULES[rule]

    def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        return change(list(whole.evaluate(quorum, thresholds)))

    patched.setitem(cast("dict[str, Rule]", RULES), rule, replace(whole, evaluate=evaluate))


def silent(patched: pytest.MonkeyPatch, rule: str) -> None:
    """The rule finds nothing."""
    _with_results(patched, rule, lambda results: [each for each in results if not isinstance(each, Finding)])


def never_clears(patched: pytest.MonkeyPatch, rule: str) -> None:
    """What the rule has found once, it finds forever."""
    found: dict[str, Finding] = {}

    def kept(results: list[RuleResult]) -> Iterable[RuleResult]:
        found.update({each.subject: each for each in results if isinstance(each, Finding)})
        return [*(each for each in results if not isinstance(each, Finding)), *found.values()]

    _with_results(patched, rule, kept)


def wrong_subject(patched: pytest.MonkeyPatch, rule: str) -> None:
    """The rule's findings are about another subject."""
    _with_results(
        patched,
        rule,
        lambda results: [
            replace(each, subject=f"another than {each.subject}") if isinstance(each, Finding) else each
            for each in results
        ],
    )


def without_hold(patched: pytest.MonkeyPatch, rule: str) -> None:
    """Alerts of the rule fire at once."""
    no_hold = thresholds_for({**OVERRIDES, f"{rule}.hold": 0})
    whole = lifecycle.advance
    patched.setattr(
        cluster_monitor,
        "advance",
        lambda tracked, evaluation, quorum, _: whole(tracked, evaluation, quorum, no_hold),
    )


PLANTED: Mapping[str, Plant] = {"silent": silent, "never clears": never_clears, "wrong subject": wrong_subject}
