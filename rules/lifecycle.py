"""Turns findings into alerts over time: pending, firing, clearing, resolved. Pure; `now` is that of what is observed.

States of a condition, which is one (rule, subject):

- *pending* from the first finding until the condition has lasted for `hold`, counted from the first finding or,
  if `Finding.condition_age_ms` is given, by the evidence's own clock. A pending condition that ends is dropped and
  makes no alert.
- *firing*: one alert. A higher severity fires again at once, a lower severity after it has lasted `clear`; both
  alerts keep the start of the first one.
- *clearing* from the first evaluation without the finding until `clear` has passed; then the alert resolves. If the
  finding returns earlier, the alert keeps firing and no alert is sent.

Conditions of one rule that began almost together (`_TOGETHER_MS`) fire together: they are one notification. While an
alert of a rule that inhibits another one fires, also during its clear time, no condition of the other rule begins,
fires or gets worse: the hold of a consequence counts from the end of its cause. A rule that outlives its cause
(`Rule.outlives_cause`) has no second hold: a condition of it that is found when the last such alert resolves fires at
once, unless it is critical, so that the incident stays open.

A rule has at most MOST_FINDINGS conditions: while it has as many, no other one begins.

Unknown is not healthy. While the rule's result is unknown, a firing alert keeps firing and its clearing restarts; so
does its change to a lower severity, unless the finding returns within ten seconds. From then on its text says when it
was found (`not_known_now`); that alone makes no transition.

A gap is a time in which nothing was observed: the monitor did not run, or it was cut off. A failed attempt is an
observation, and so is every answer; the report that the gatherer was restarted (`interrupted`) is none. What was
observed before a gap is not current after it (`Quorum.watched_since_ms`): the rules that need it are unknown until the
first answer or failed attempt. So a gap neither fires nor ends anything; the first observation of the condition after
it decides:

- The condition is found: it has lasted since its first finding, and the gap counts. A hold that ended in the gap fires
  at this observation. So the restarts of a monitor do not begin every hold again.
- It is not found: a pending condition is dropped, a firing one begins to clear.
- Its evidence says how old it is (`Finding.condition_age_ms`): that alone counts, because it may be another one.

A pending condition is kept for `_GAP_MS` while its rule is not observed; the next finding then begins a new hold, so
that no alert claims that something has lasted for hours that were not observed. It is kept for ten seconds while the
rule cannot decide about its subject from what it observes, or is inhibited; a gap before that does not count.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

from rules.alert import Alert, AlertState
from rules.claims.claim import NO, Claim, condition_claim
from rules.claims.statement import claims_of
from rules.evaluate import ALL_RULES, INHIBITED, MOST_FINDINGS, resolved_text
from rules.facts.quorum import Facts
from rules.finding import CLEAR, NO_FACTS, Evaluation, Finding, FindingFacts, Plain, Severity, Thresholds
from rules.firing import EndedAlert, Firing
from rules.formatting import as_found, not_known_now, resolved_summary
from rules.model.identifiers import Millis
from rules.model.job_state import JobState
from rules.model.quorum import Quorum
from rules.model.subject import Subject

Observed: TypeAlias = Quorum | JobState
"""What the rules are about: a cluster's quorum, or the job itself."""
_ZERO = Millis(0)
_UNDECIDED_MS = 10_000
"""How long a condition that is pending, or has a lower severity, may be unknown in between: its rule cannot decide
about it, or is inhibited. Each probe is newer than the poll that shows what it means, until the next poll."""
_GAP_MS = 3_600_000
"""How long a pending condition is kept while nothing shows whether it lasts: longer than a crash loop pauses."""
_TOGETHER_MS = 5_000
"""How much earlier than its hold a condition may fire with an older one of its rule; at most a sixth of the hold."""
_NOT_KNOWN_NOW = "not_known_now"
"""The evidence that says why the condition of an alert is not known now."""
_LACKS_RULE = "this kraftwatch does not have it"
"""Why the alert of a rule that another version has resolves."""
_NO_RULE = Thresholds(values={CLEAR: 10.0})
"""For an alert whose rule no longer exists: the alert clears like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedCondition:
    """The state of one condition from its first finding until it is dropped or resolved."""

    rule: str
    subject: str
    cluster_id: str
    """The first cluster id that was known: an alert keeps its fingerprint until it resolves."""
    started_at_ms: Millis
    due_at_ms: Millis
    """When the alert may fire. It changes with the configured hold while the condition is pending."""
    age_at_start_ms: Millis = _ZERO
    """How old the condition was at `started_at_ms` by its evidence's own clock."""
    last_seen_at_ms: Millis
    notified_severity: Severity | None = None
    """The severity of the newest firing alert; None while pending."""
    clearing_since_ms: Millis | None = None
    milder_since_ms: Millis | None = None
    """Since when the severity has been lower than the notified one."""
    summary: str
    evidence: Mapping[str, Plain]
    facts: FindingFacts = NO_FACTS

    @property
    def about(self) -> Subject:
        """The subject whose text is stored."""
        return Subject.of(self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedConditions:
    """All tracked conditions of one cluster: plain data that is kept between evaluations."""

    now_ms: Millis = _ZERO
    """The newest time that was evaluated. An older evaluation changes nothing: re-delivery is normal."""
    conditions: Mapping[str, TrackedCondition] = field(default_factory=dict)
    """By `RULE SUBJECT`."""
    quiet_until_ms: Millis | None = _ZERO
    """Until when the same is found if only time passes, after an evaluation; None: that is not foreseen yet."""


def notified_conditions(alerts: Iterable[Alert]) -> TrackedConditions:
    """Returns the conditions of alerts that fire, as a ledger has them: nothing has been evaluated since."""
    return TrackedConditions(
        conditions={
            f"{alert.rule} {alert.subject}": TrackedCondition(
                rule=alert.rule,
                subject=alert.subject,
                cluster_id=alert.cluster_id,
                started_at_ms=alert.started_at_ms,
                due_at_ms=alert.due_at_ms,
                last_seen_at_ms=alert.observed_at_ms,
                notified_severity=alert.severity,
                summary=as_found(alert.summary),
                evidence={name: value for name, value in alert.evidence.items() if name != _NOT_KNOWN_NOW},
                facts=alert.facts,
            )
            for alert in alerts
        }
    )


def advance(
    tracked: TrackedConditions,
    evaluation: Evaluation,
    observed: Observed,
    thresholds: Mapping[str, Thresholds],
) -> tuple[TrackedConditions, tuple[Alert, ...]]:
    """Applies the evaluation of what is observed to the conditions after the previous one.

    Returns the new conditions, and the alerts that fire or resolve now: first those of the findings, in the
    evaluation's order, then the resolved ones.
    """
    if observed.now_ms < tracked.now_ms:
        return tracked, ()
    found = {f"{finding.rule} {finding.subject}": finding for finding in evaluation.findings}
    unobserved = _unobserved(evaluation)
    not_applicable = {result.rule: result.why for result in evaluation.not_applicable}
    known = Facts(observed) if isinstance(observed, Quorum) else observed
    absent = {
        key: _without_finding(
            condition,
            known,
            thresholds.get(condition.rule, _NO_RULE),
            not_applicable.get(condition.rule, None if condition.rule in ALL_RULES else _LACKS_RULE),
        )
        if evaluation.knows(condition.rule, condition.subject)
        else (_while_unknown(condition, observed, unobserved), None)
        for key, condition in tracked.conditions.items()
        if key not in found
    }
    resolved = [alert for _, alert in absent.values() if alert]
    firing = Counter(
        condition.rule for condition in tracked.conditions.values() if condition.notified_severity is not None
    )
    remaining = firing - Counter(alert.rule for alert in resolved)
    steps: dict[str, _Step] = {}
    of_rule = Counter(condition.rule for condition in tracked.conditions.values())
    for key, finding in found.items():
        before = tracked.conditions.get(key)
        if before is None:
            of_rule[finding.rule] += 1
            if of_rule[finding.rule] > MOST_FINDINGS:
                continue
        if not _inhibited(finding.rule, firing):
            steps[key] = _Step(finding, *_with_finding(before, finding, observed, thresholds[finding.rule]))
        elif not _inhibited(finding.rule, remaining) and _outlives_cause(finding, before):
            steps[key] = _Step(finding, *_fired(_began(finding, observed), finding, observed, observed.now_ms))
        elif before:
            absent[key] = (_while_unknown(before, observed, unobserved), None)
    steps = _fired_together(steps, tracked, observed, thresholds)
    conditions = {key: step.condition for key, step in steps.items()}
    conditions |= {key: kept for key in tracked.conditions if key in absent and (kept := absent[key][0]) is not None}
    fired = [step.alert for step in steps.values() if step.alert]
    tracked = TrackedConditions(now_ms=observed.now_ms, conditions=conditions, quiet_until_ms=None)
    return tracked, (*fired, *resolved)


def interrupted(tracked: TrackedConditions, now_ms: Millis, *, time_passed: bool = True) -> TrackedConditions:
    """Returns the conditions after a row that observes nothing: none fires or ends, and clearing begins again.

    `time_passed`: False if the clock was set forward since the row before: no hold has become shorter.
    """
    if now_ms < tracked.now_ms:
        return tracked
    step_ms = 0 if time_passed else now_ms - tracked.now_ms
    conditions = {
        key: replace(condition, clearing_since_ms=None, milder_since_ms=None)
        if condition.notified_severity is not None
        else replace(
            condition,
            started_at_ms=Millis(condition.started_at_ms + step_ms),
            due_at_ms=Millis(condition.due_at_ms + step_ms),
            last_seen_at_ms=Millis(condition.last_seen_at_ms + step_ms),
        )
        for key, condition in tracked.conditions.items()
    }
    return TrackedConditions(now_ms=now_ms, conditions=conditions)


def firing(
    tracked: TrackedConditions,
    evaluation: Evaluation,
    observed: Observed,
    *,
    before: Firing | None = None,
    changed: Iterable[Alert] = (),
) -> Firing:
    """Returns what fires now, and what ended since `before`.

    Args:
        tracked: the conditions.
        evaluation: the newest results of the rules.
        observed: what they are about.
        before: what fired before the transitions `changed`; None: nothing is known of that.
        changed: the transitions since `before`, in order.
    """
    ended, begun = _ended(() if before is None else before.alerts, changed)
    found = {(finding.rule, str(finding.subject)): finding for finding in evaluation.findings}
    alerts: list[Alert] = []
    kept: set[tuple[str, str | None]] = {*evaluation.unknown_subjects}
    for condition in tracked.conditions.values():
        if condition.notified_severity is None:
            kept.add((condition.rule, condition.subject))
            continue
        shown, finding = _of_now(condition, evaluation, observed), found.get((condition.rule, condition.subject))
        # Where the rule may only be undecided, an alert keeps its text and what that claims.
        claims = () if shown is condition else (condition_claim(condition.about),)
        alert = condition_alert(
            shown,
            observed,
            due_at_ms=condition.due_at_ms,
            remedy=() if finding is None else finding.remedy,
            claims=claims if finding is None else finding.claims,
        )
        if (transition := begun.get((condition.rule, condition.subject))) is not None:
            alert = replace(
                alert,
                remedy=alert.remedy or transition.remedy,
                claims=alert.claims or transition.claims,
                due_at_ms=transition.due_at_ms,
                observed_at_ms=transition.observed_at_ms,
                offset=transition.offset,
            )
        alerts.append(alert)
    return Firing(
        cluster=observed.cluster, evaluated_ms=observed.now_ms, alerts=tuple(alerts), kept=frozenset(kept), ended=ended
    )


def _of_now(condition: TrackedCondition, evaluation: Evaluation, observed: Observed) -> TrackedCondition:
    """Returns the condition of an alert with a text that is true now: what is unknown, or inhibited, was found before.

    The summary says when, the evidence why; not while its rule may only be undecided.
    """
    why, found_at_ms = evaluation.why_unknown(condition.rule, condition.subject), condition.last_seen_at_ms
    undecided = why is not None and not why.startswith(INHIBITED)
    if why is None or (undecided and observed.now_ms - found_at_ms <= _UNDECIDED_MS):
        return condition
    return replace(
        condition,
        summary=not_known_now(condition.summary, found_at_ms),
        evidence={**condition.evidence, _NOT_KNOWN_NOW: why},
    )


def _ended(
    before: Iterable[Alert], changed: Iterable[Alert]
) -> tuple[tuple[EndedAlert, ...], Mapping[tuple[str, str], Alert]]:
    """Returns the alerts that ended by these transitions, and the newest transition of each that still fires."""
    ended: list[EndedAlert] = []
    fired = {(alert.rule, alert.subject): alert for alert in before}
    begun: dict[tuple[str, str], Alert] = {}
    for one in changed:
        about = (one.rule, one.subject)
        if one.state is AlertState.FIRING:
            fired[about] = begun[about] = one
        else:
            begun.pop(about, None)
            ended.append(EndedAlert(fired=fired.pop(about, replace(one, state=AlertState.FIRING)), resolved=one))
    return tuple(ended), begun


class _Step(NamedTuple):
    finding: Finding
    condition: TrackedCondition
    alert: Alert | None


def _unobserved(evaluation: Evaluation) -> frozenset[str]:
    """Returns the rules that are unknown for all subjects because something is not observed."""
    found = {finding.rule for finding in evaluation.findings}
    return frozenset(
        result.rule for result in evaluation.unknown if result.subject is None and not _inhibited(result.rule, found)
    )


def _inhibited(rule: str, firing: Collection[str]) -> bool:
    return rule in ALL_RULES and any(cause in firing for cause in ALL_RULES[rule].inhibited_by)


def _outlives_cause(finding: Finding, before: TrackedCondition | None) -> bool:
    """Returns whether a condition that did not fire fires when its cause resolves; if critical, it may still pass."""
    fires = before is not None and before.notified_severity is not None
    return not fires and ALL_RULES[finding.rule].outlives_cause and finding.severity is not Severity.CRITICAL


def _fired(
    condition: TrackedCondition, finding: Finding, observed: Observed, due_at_ms: Millis
) -> tuple[TrackedCondition, Alert]:
    fired = replace(condition, notified_severity=finding.severity, milder_since_ms=None)
    if condition.notified_severity is None:
        fired = replace(fired, cluster_id=condition.cluster_id or observed.cluster_id or "")
    remedy, claims = finding.remedy, finding.claims
    return fired, condition_alert(fired, observed, remedy=remedy, claims=claims, due_at_ms=due_at_ms)


def _fired_together(
    steps: Mapping[str, _Step],
    tracked: TrackedConditions,
    observed: Observed,
    thresholds: Mapping[str, Thresholds],
) -> dict[str, _Step]:
    """Returns the steps, in which pending conditions fire with one of their rule that begins to fire now."""
    begun = {
        step.finding.rule
        for key, step in steps.items()
        if step.alert and (key not in tracked.conditions or tracked.conditions[key].notified_severity is None)
    }
    together = dict(steps)
    for key, (finding, condition, _) in steps.items():
        early_ms = min(_TOGETHER_MS, finding.hold(thresholds[finding.rule]) // 6)
        pending = condition.notified_severity is None
        if pending and finding.rule in begun and condition.due_at_ms - observed.now_ms <= early_ms:
            together[key] = _Step(finding, *_fired(condition, finding, observed, observed.now_ms))
    return together


def next_due(tracked: TrackedConditions, thresholds: Mapping[str, Thresholds]) -> Millis | None:
    """Returns the earliest time after `tracked.now_ms` at which the passing of time alone makes an alert, or None.

    An observation at that time is evaluated at that time. Without one, the alert waits for the next observation.
    """
    dues = [due for condition in tracked.conditions.values() for due in _dues(condition, thresholds)]
    return min((due for due in dues if due > tracked.now_ms), default=None)


def _dues(condition: TrackedCondition, thresholds: Mapping[str, Thresholds]) -> Iterable[Millis]:
    if condition.notified_severity is None:
        yield condition.due_at_ms
    clear = thresholds.get(condition.rule, _NO_RULE).ms(CLEAR)
    for since in (condition.clearing_since_ms, condition.milder_since_ms):
        if since is not None:
            yield Millis(since + clear)


def _with_finding(
    before: TrackedCondition | None, finding: Finding, observed: Observed, thresholds: Thresholds
) -> tuple[TrackedCondition, Alert | None]:
    now = observed.now_ms
    hold = finding.hold(thresholds)
    age = finding.condition_age_ms or 0
    if before and not before.notified_severity and finding.condition_age_ms is not None:
        # After a gap the age by the evidence alone counts: it may be another condition.
        before = before if before.last_seen_at_ms >= observed.watched_since_ms else None
    after = replace(
        before or _began(finding, observed),
        last_seen_at_ms=now,
        clearing_since_ms=None,
        summary=finding.summary,
        evidence=finding.evidence,
        facts=finding.facts,
    )
    if after.notified_severity is None:
        after = replace(after, due_at_ms=Millis(after.started_at_ms + max(0, hold - after.age_at_start_ms)))
        if now < after.due_at_ms and age < hold:
            return after, None
        return _fired(after, finding, observed, min(after.due_at_ms, now))
    if finding.severity is after.notified_severity:
        return replace(after, milder_since_ms=None), None
    if finding.severity.rank > after.notified_severity.rank:
        return _fired(after, finding, observed, now)
    since = after.milder_since_ms
    if before is None or since is None or now - before.last_seen_at_ms > _UNDECIDED_MS:
        since = now
    due = Millis(since + thresholds.ms(CLEAR))
    return _fired(after, finding, observed, due) if now >= due else (replace(after, milder_since_ms=since), None)


def _began(finding: Finding, observed: Observed) -> TrackedCondition:
    return TrackedCondition(
        rule=finding.rule,
        subject=str(finding.subject),
        cluster_id=observed.cluster_id or "",
        started_at_ms=observed.now_ms,
        due_at_ms=observed.now_ms,
        age_at_start_ms=Millis(finding.condition_age_ms or 0),
        last_seen_at_ms=observed.now_ms,
        summary=finding.summary,
        evidence=finding.evidence,
        facts=finding.facts,
    )


def _without_finding(
    condition: TrackedCondition, known: Facts | JobState, thresholds: Thresholds, not_applicable: str | None
) -> tuple[TrackedCondition | None, Alert | None]:
    """`not_applicable`: why the rule evaluates nothing, which does not mean that the condition is over."""
    if condition.notified_severity is None:
        return None, None
    observed = known.quorum if isinstance(known, Facts) else known
    now = observed.now_ms
    since = now if condition.clearing_since_ms is None else condition.clearing_since_ms
    due = Millis(since + thresholds.ms(CLEAR))
    if now < due:
        return replace(condition, clearing_since_ms=since, milder_since_ms=None), None
    summary = f"Rule {condition.rule} is not evaluated any more: {not_applicable}."
    claims: tuple[Claim, ...] = (condition_claim(condition.about),)
    if not_applicable is None:
        text = resolved_text(condition.rule, condition.about, known)
        summary = resolved_summary(text, since)
        claims = (condition_claim(condition.about, NO, observed_at_ms=now), *claims_of((text,)))
    resolved = condition_alert(
        condition, observed, state=AlertState.RESOLVED, summary=summary, claims=claims, due_at_ms=due
    )
    return None, resolved


def _while_unknown(
    condition: TrackedCondition, observed: Observed, unobserved: Collection[str]
) -> TrackedCondition | None:
    if condition.notified_severity is not None:
        return replace(condition, clearing_since_ms=None)
    unknown_ms = observed.now_ms - condition.last_seen_at_ms
    undecided_ms = min(unknown_ms, observed.now_ms - observed.watched_since_ms)
    kept = unknown_ms <= _GAP_MS and (condition.rule in unobserved or undecided_ms <= _UNDECIDED_MS)
    return condition if kept else None


def condition_alert(
    condition: TrackedCondition,
    observed: Observed,
    *,
    due_at_ms: Millis,
    state: AlertState = AlertState.FIRING,
    summary: str | None = None,
    remedy: tuple[str, ...] = (),
    claims: tuple[Claim, ...] = (),
) -> Alert:
    """Returns the transition of a condition whose severity is notified; `summary` replaces that of the condition."""
    assert condition.notified_severity is not None
    return Alert(
        cluster=observed.cluster,
        cluster_id=condition.cluster_id,
        names_cluster=True,
        rule=condition.rule,
        subject=condition.subject,
        severity=condition.notified_severity,
        state=state,
        summary=condition.summary if summary is None else summary,
        evidence=condition.evidence,
        facts=condition.facts,
        claims=claims,
        remedy=remedy,
        started_at_ms=condition.started_at_ms,
        due_at_ms=due_at_ms,
        observed_at_ms=observed.now_ms,
        offset=observed.last_offset,
    )
