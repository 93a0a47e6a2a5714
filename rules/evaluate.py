"""Finds the rules in `rules/checks` and `rules/job` and evaluates all of them on one quorum.

While something is not observed that a rule needs (`Rule.needs`), its only result is unknown or not applicable. A rule
that raises an exception is unknown, and becomes a finding of `monitor-blind` about it; the others are evaluated.
A rule is inhibited while a rule in its `Rule.inhibited_by` has a finding: its result is then unknown, so that an alert
that already fires does not resolve because its root cause fires too.
"""

import difflib
import importlib
import math
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from types import ModuleType

from rules import checks, job
from rules.answers.now import over
from rules.answers.restart import with_reasons_against
from rules.claims.claim import NO, YES, Question, condition_claim, of_each
from rules.claims.statement import claims_of
from rules.facts.freshness import (
    AGES,
    AGES_SECTION,
    POLLS_ONLY,
)
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import (
    ALERTS,
    ALERTS_SECTION,
    Draft,
    Evaluation,
    Finding,
    FindingFacts,
    NotApplicable,
    RuleResult,
    Severity,
    Thresholds,
    UnknownResult,
)
from rules.formatting import printable_step, visible, visible_evidence
from rules.model.job_state import JobState
from rules.model.subject import Subject
from rules.remedies.one_plan import as_one_plan
from rules.remedies.remedy_commands import after_election, with_legend
from rules.remedies.start_conditions import start_conditions
from rules.remedies.start_log import with_log_lines
from rules.remedies.step import started
from rules.rule import NO_LEADER, DeclaredRule, JobRule, Rule

BLIND = "monitor-blind"
"""The rule about the monitor itself: a rule that fails is reported under this id."""
INHIBITED = "inhibited by "
"""How the reason of an unknown result begins that another rule's finding explains; that rule's id follows."""

MOST_FINDINGS = 500
"""Findings of one rule that are reported, the worst first: nobody reads more, and each is tracked as a condition."""
DISABLED = "disabled by the configuration"
"""Why a rule that the configuration turned off is not applicable."""


class ThresholdError(ValueError):
    """An override of an unknown rule or threshold, or an invalid value: one sentence, with the nearest known name."""


def _load(package: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    for name in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        yield name.replace("_", "-"), importlib.import_module(f"{package.__name__}.{name}")


def _rule(rule: str, module: ModuleType) -> Rule:
    declared: Rule = module.RULE
    causes = declared.inhibited_by if declared.without_leader else (NO_LEADER, *declared.inhibited_by)
    return replace(declared, id=rule, text=module.__doc__ or "", evaluate=module.evaluate, inhibited_by=causes)


RULES: Mapping[str, Rule] = {rule: _rule(rule, module) for rule, module in _load(checks)}
"""Every rule about a quorum by its id, in the order of the ids."""
JOB_RULES: Mapping[str, JobRule] = {
    rule: replace(module.RULE, id=rule, text=module.__doc__ or "", evaluate=module.evaluate)
    for rule, module in _load(job)
}
"""Every rule about the job itself by its id."""
ALL_RULES: Mapping[str, DeclaredRule] = dict(sorted({**RULES, **JOB_RULES}.items()))
"""Both, in the order of the ids."""
OBSERVATION_RULES = frozenset(rule.id for rule in RULES.values() if rule.about_observation)
"""The rules whose findings say what is not observed."""
RECORDS_AT_RISK_RULES = frozenset(rule.id for rule in RULES.values() if rule.records_at_risk)
"""The rules whose findings say that acknowledged records may be lost."""


def thresholds_for(overrides: Mapping[str, float]) -> Mapping[str, Thresholds]:
    """Returns the numbers in force by rule id: every rule's defaults, with overrides (`RULE.NAME` -> value).

    What all rules share is under `ages` (of observations) and `alerts`; each rule has that of alerts too.

    Raises a ThresholdError for an unknown rule or threshold, and for a value below 0 or not finite.
    """
    values = {
        rule.id: {threshold.name: threshold.default for threshold in rule.thresholds} for rule in ALL_RULES.values()
    }
    for section, shared in ((AGES_SECTION, AGES), (ALERTS_SECTION, ALERTS)):
        values[section] = {threshold.name: threshold.default for threshold in shared}
    for key, value in overrides.items():
        rule, _, name = key.partition(".")
        if rule not in values:
            raise ThresholdError(f"unknown rule '{rule}' in '{key}': {_nearest(rule, values)}")
        if name not in values[rule]:
            raise ThresholdError(f"rule '{rule}' has no threshold '{name}': {_nearest(name, values[rule])}")
        if not math.isfinite(value) or value < 0:
            raise ThresholdError(f"invalid value {value:g} for threshold '{key}': expected a number of 0 or more")
        values[rule][name] = float(value)
    return {rule: Thresholds(values={**values[ALERTS_SECTION], **numbers}) for rule, numbers in values.items()}


def resolved_text(rule: str, subject: Subject, observed: Facts | JobState) -> str:
    """Returns one sentence or two that say what is true now of a subject whose condition is over."""
    match observed:
        case Facts() if rule in RULES:
            text = RULES[rule].resolved
            return visible(text if isinstance(text, str) else text(observed, subject))
        case JobState() if rule in JOB_RULES:
            of_job = JOB_RULES[rule].resolved
            return visible(of_job if isinstance(of_job, str) else of_job(observed, subject))
    return visible(over(subject))


def evaluate_job(state: JobState, thresholds: Mapping[str, Thresholds]) -> Evaluation:
    """Evaluates the rules about the job itself on this state."""
    results: list[RuleResult] = []
    for rule in JOB_RULES.values():
        own = thresholds[rule.id]
        if not own.enabled:
            results.append(NotApplicable(rule=rule.id, why=DISABLED))
            continue
        for result in rule.evaluate(state, own):
            found = _visible(replace(result, rule=rule.id))
            if isinstance(found, Finding):
                remedy = tuple(map(printable_step, found.remedy))
                claims = (condition_claim(found.subject, YES), *claims_of((found.summary, *remedy)))
                found = replace(found, severity=own.severity or found.severity, remedy=remedy, claims=claims)
            results.append(found)
    return Evaluation(
        findings=tuple(each for each in results if isinstance(each, Finding)),
        unknown=tuple(each for each in results if isinstance(each, UnknownResult)),
        not_applicable=tuple(each for each in results if isinstance(each, NotApplicable)),
    )


def evaluate(
    facts: Facts, thresholds: Mapping[str, Thresholds], rules: Sequence[Rule] | None = None, *, texts: bool = True
) -> Evaluation:
    """Evaluates these rules, or all, on this quorum: the same input gives the same evaluation, in the same order.

    `texts`: False to know what is found, and not to print it: the texts of the findings may be missing.
    """
    selected = tuple(RULES.values()) if rules is None else tuple(rules)
    failed: dict[str, str] = {}
    results = {rule.id: contained_results(rule, facts, thresholds, failed, texts=texts) for rule in selected}
    active = {result.rule for of_rule in results.values() for result in of_rule if isinstance(result, Finding)}
    kept = [result for rule in selected for result in _inhibited(rule, results[rule.id], active)]
    findings: Sequence[Finding] = [result for result in kept if isinstance(result, Finding)]
    try:
        findings = as_one_plan(with_reasons_against(facts, findings, thresholds)) if texts else findings
    except MemoryError:
        raise
    except Exception as problem:  # noqa: BLE001 - each remedy holds by itself
        failed[BLIND] = exception_site(problem)
    return Evaluation(
        findings=tuple(findings),
        unknown=tuple(result for result in kept if isinstance(result, UnknownResult)),
        not_applicable=tuple(result for result in kept if isinstance(result, NotApplicable)),
        failed=failed,
    )


def results_of(rule: Rule, facts: Facts, thresholds: Thresholds, *, texts: bool = True) -> tuple[RuleResult, ...]:
    """Returns the results of one rule, at most MOST_FINDINGS findings, whose texts stay on their lines.

    Raises what the rule raises.
    """
    return tuple(
        _visible(_whole(facts, result) if texts and isinstance(result, Finding) else result)
        for result in evaluate_rule(rule, facts, thresholds, texts=texts)
    )


def _whole(facts: Facts, finding: Finding) -> Finding:
    """Returns the finding with all steps of its remedy, and with all that its texts claim."""
    remedy = _whole_remedy(facts, finding)
    condition = condition_claim(finding.subject, YES, observed_at_ms=facts.quorum.now_ms)
    kept = of_each(Question.RESTART, finding.keep_running, NO)
    claims = tuple(dict.fromkeys((condition, *claims_of((finding.summary, *remedy)), *kept)))
    return replace(finding, remedy=remedy, claims=claims)


def _visible(result: RuleResult) -> RuleResult:
    """Returns the result with hidden characters escaped: a node chooses the names in it, such as those of hosts."""
    match result:
        case Finding():
            shown = (
                _visible_subject(result.subject),
                visible(result.summary),
                visible_evidence(result.evidence),
                _visible_facts(result.facts),
            )
            if all(map(is_, shown, (result.subject, result.summary, result.evidence, result.facts))):
                return result
            return replace(result, subject=shown[0], summary=shown[1], evidence=shown[2], facts=shown[3])
        case UnknownResult():
            subject, why = None if result.subject is None else _visible_subject(result.subject), visible(result.why)
            return (
                result if (subject, why) == (result.subject, result.why) else replace(result, subject=subject, why=why)
            )
        case NotApplicable():
            why = visible(result.why)
            return result if why == result.why else replace(result, why=why)


def _visible_subject(subject: Subject) -> Subject:
    shown = visible(subject.kind), None if subject.name is None else visible(subject.name)
    return subject if shown == (subject.kind, subject.name) else Subject(*shown)


def _visible_facts(facts: FindingFacts) -> FindingFacts:
    if not facts.clusters and facts.refused is None:
        return facts
    refused = facts.refused
    if refused is not None:
        refused = replace(
            refused,
            cluster=None if refused.cluster is None else visible(refused.cluster),
            part=visible(refused.part),
            reason=visible(refused.reason),
            topic_partition=visible(refused.topic_partition),
        )
    return replace(facts, clusters=tuple(map(visible, facts.clusters)), refused=refused)


def evaluate_rule(rule: Rule, facts: Facts, thresholds: Thresholds, *, texts: bool = True) -> Sequence[RuleResult]:
    """Returns the results of one rule, with its id and the configured severity.

    The only result is unknown or not applicable while a need is not met, and not applicable for a disabled rule.
    """
    unmet = _unmet_need(rule, facts, thresholds)
    results = [*rule.evaluate(facts, thresholds)] if unmet is None else [unmet]
    if not results:
        return ()
    bounded = _bounded(rule, results, thresholds.severity)
    return [_of_rule(rule, _made(one, texts=texts) if isinstance(one, Draft) else one, thresholds) for one in bounded]


def _made(draft: Draft, *, texts: bool) -> Finding:
    if texts:
        return draft.make()
    return Finding(subject=draft.subject, severity=draft.severity, summary="", evidence={}, remedy=())


def _of_rule(rule: Rule, found: RuleResult, thresholds: Thresholds) -> RuleResult:
    if isinstance(found, Finding) and thresholds.severity is not None:
        return replace(found, rule=rule.id, severity=thresholds.severity)
    return replace(found, rule=rule.id)


def _bounded(
    rule: Rule, results: Sequence[RuleResult | Draft], severity: Severity | None
) -> Sequence[RuleResult | Draft]:
    """Returns the worst findings, and that those of all other subjects are unknown, if there are too many results.

    `severity`: the configured one of all.
    """
    if len(results) <= MOST_FINDINGS:
        return results
    findings = sorted(
        (result for result in results if isinstance(result, Finding | Draft)),
        key=lambda each: -(severity or each.severity).rank,
    )
    why = f"the rule has {len(results)} results, of which {MOST_FINDINGS} are reported"
    return [*findings[:MOST_FINDINGS], UnknownResult(subject=None, why=why)]


def _unmet_need(rule: Rule, facts: Facts, thresholds: Thresholds) -> UnknownResult | NotApplicable | None:
    """Returns the result of a rule for the first of its needs that is not met; None if all are met."""
    if not thresholds.enabled:
        return NotApplicable(why=DISABLED)
    if facts.quorum.access.log and not facts.unmet_needs:
        return None
    for need in rule.needs:
        if need is not Need.FRESH_POLL and not facts.quorum.access.log:
            return NotApplicable(why=POLLS_ONLY)
        found = facts.unmet_needs.get(need)
        if found is not None:
            return found if isinstance(found, NotApplicable) else UnknownResult(why=found)
    return None


def _whole_remedy(facts: Facts, finding: Finding) -> tuple[str, ...]:
    first = start_conditions(facts, (*finding.starts, *started(finding.remedy)))
    own = (step for step in finding.remedy if step not in first)
    whole = (*first, *with_log_lines(facts, after_election(facts, own)))
    return with_legend(facts.quorum, tuple(map(printable_step, whole)))


def contained_results(
    rule: Rule, facts: Facts, thresholds: Mapping[str, Thresholds], failed: dict[str, str], *, texts: bool = True
) -> tuple[RuleResult, ...]:
    """Returns the results of one rule; if it raises, adds it to `failed` and returns that it is unknown.

    `thresholds`: by rule id. Those of `monitor-blind` apply to the finding that the rule failed.
    """
    own = thresholds[rule.id]
    try:
        return results_of(rule, facts, own, texts=texts)
    except MemoryError:
        raise
    except Exception as problem:  # noqa: BLE001 - a rule that fails must not stop the other rules
        failed[rule.id] = error = exception_site(problem)
        unknown = UnknownResult(rule=rule.id, subject=None, why=f"the rule failed: {error}")
        blind = thresholds.get(BLIND, Thresholds())
        return (_failure(rule, error, facts, blind), unknown) if blind.enabled else (unknown,)


def _failure(rule: Rule, error: str, facts: Facts, thresholds: Thresholds) -> Finding:
    subject = Subject("rule", rule.id)
    return Finding(
        rule=BLIND,
        subject=subject,
        claims=(condition_claim(subject, YES),),
        severity=thresholds.severity or Severity.WARNING,
        summary=f"Rule {rule.id} failed and is not evaluated: {error}.",
        evidence={"rule": rule.id, "error": error, "last_offset": facts.quorum.last_offset},
        remedy=(f"# Report this as a bug of kraftwatch: until it is fixed, rule {rule.id} is not evaluated",),
    )


def _inhibited(rule: Rule, results: Iterable[RuleResult], active: set[str]) -> Iterable[RuleResult]:
    causes = [cause for cause in rule.inhibited_by if cause in active]
    if not causes:
        return results
    # The finding that the rule itself failed is no consequence of another rule's finding.
    kept = [result for result in results if not (isinstance(result, Finding) and result.rule == rule.id)]
    return [*kept, UnknownResult(rule=rule.id, subject=None, why=f"{INHIBITED}{causes[0]}")]


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean '{near[0]}'?" if near else f"known names: {', '.join(names)}"


def with_overrides(
    thresholds: Mapping[str, Thresholds], overrides: Mapping[str, Thresholds]
) -> Mapping[str, Thresholds]:
    """Returns the thresholds by rule id, with what these `overrides` say besides their values."""
    return {
        rule: replace(overrides[rule], values=each.values) if rule in overrides else each
        for rule, each in thresholds.items()
    }


_OWN = ("rules", "connectors", "streaming")


def exception_site(error: BaseException) -> str:
    """Returns an exception's type, and the module and line of kraftwatch's own code that raised it or called into it.

    For example `TypeError in rules.answers.forecast, line 57`.
    """
    site = ""
    frame = error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__"))
        if not site or module.partition(".")[0] in _OWN:
            site = f" in {module}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return f"{type(error).__name__}{site}"
