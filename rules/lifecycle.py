"""Findings over time become alerts: pending, firing, clearing, resolved. Pure; `now` is the quorum's.

How a finding lives:

- *pending* from its first sight until it has stood `hold` (by when we first saw it, or by its evidence's
  own clock where `Finding.standing_ms` says so). Gone before that: forgotten, nothing was told.
- *firing*: told once. A worse severity is told at once, a milder one when it has lasted `clear`; both are new
  firing lines with the same start.
- *clearing* from the first evaluation without it until `clear` has passed: then it is told resolved. Seen again
  before that: it goes on firing, and nothing is told.

Unknown is not healthy: while the rule cannot tell, a firing alert stays as it is and its clearing, or
getting milder, starts anew, and a pending one waits, for ten seconds at most.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rules.alert import Alert, AlertState
from rules.finding import CLEAR, HOLD, Evaluation, Finding, Plain, Severity, Thresholds
from rules.formatting import spelled
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum

_WORSE = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}
_NEVER = _NONE = Millis(0)
_PATIENCE_MS = 10_000
"""How long a pending condition may be out of sight and still count as having stood."""
_NO_RULE = Thresholds(values={HOLD: 0.0, CLEAR: 10.0})
"""For an alert whose rule is no more: it clears like any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What is remembered of one condition, from its first sight until it is forgotten or resolved."""

    rule: str
    subject: str
    cluster_id: str
    """As first known to be: an alert keeps its fingerprint for its whole life."""
    started_at_ms: Millis
    due_at_ms: Millis
    """When it may be told firing: the hold may be changed while it is pending."""
    stood_ms: Millis = _NONE
    """How long it had stood by its evidence's own clock when it was first seen; older checkpoints do not say."""
    last_seen_at_ms: Millis
    told: Severity | None = None
    """The severity that was told last; None while pending."""
    clearing_since_ms: Millis | None = None
    milder_since_ms: Millis | None = None
    """Since when it is less severe than what was told."""
    summary: str
    evidence: Mapping[str, Plain]


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """The life of every condition of one cluster: plain data, kept between judgements."""

    now_ms: Millis = _NEVER
    """The newest moment that was judged: an older one changes nothing (re-delivery is normal)."""
    standings: Mapping[str, Standing] = field(default_factory=dict)
    """By `RULE SUBJECT`."""


def advance(
    book: Book, evaluation: Evaluation, quorum: Quorum, thresholds: Mapping[str, Thresholds]
) -> tuple[Book, tuple[Alert, ...]]:
    """One step: the book after this evaluation, and what is to be told now.

    Args:
        book: what was remembered.
        evaluation: what the rules say of `quorum`.
        quorum: gives cluster, cluster id, now and the newest committed offset.
        thresholds: by rule id: `hold` and `clear`.

    Returns:
        The next book, and the alerts: findings' own in the evaluation's order, then the resolved ones.
    """
    if quorum.now_ms < book.now_ms:
        return book, ()
    standings: dict[str, Standing] = {}
    alerts: list[Alert] = []
    for finding in evaluation.findings:
        key = f"{finding.rule} {finding.subject}"
        numbers = thresholds.get(finding.rule, _NO_RULE)
        standing, alert = _seen(book.standings.get(key), finding, quorum, numbers)
        standings[key] = standing
        alerts += [alert] if alert else []
    for key, standing in book.standings.items():
        if key in standings:
            continue
        numbers = thresholds.get(standing.rule, _NO_RULE)
        if evaluation.knows(standing.rule, standing.subject):
            kept, alert = _absent(standing, quorum, numbers)
        else:
            kept, alert = _unknown(standing, quorum), None
        if kept:
            standings[key] = kept
        alerts += [alert] if alert else []
    return Book(now_ms=quorum.now_ms, standings=standings), tuple(alerts)


def next_due(book: Book, thresholds: Mapping[str, Thresholds]) -> Millis | None:
    """The earliest moment after the book's own at which time alone would tell something; None when nothing waits.

    An observation made then is judged then: without one, what is due waits for whatever is seen next.
    """
    dues = [due for standing in book.standings.values() for due in _dues(standing, thresholds)]
    return min((due for due in dues if due > book.now_ms), default=None)


def _dues(standing: Standing, thresholds: Mapping[str, Thresholds]) -> Iterable[Millis]:
    if standing.told is None:
        yield standing.due_at_ms
    clear = thresholds.get(standing.rule, _NO_RULE).ms(CLEAR)
    for since in (standing.clearing_since_ms, standing.milder_since_ms):
        if since is not None:
            yield Millis(since + clear)


def _seen(
    before: Standing | None, finding: Finding, quorum: Quorum, thresholds: Thresholds
) -> tuple[Standing, Alert | None]:
    now, hold = quorum.now_ms, thresholds.ms(HOLD)
    stood = finding.standing_ms or 0
    if before is None:
        before = Standing(
            rule=finding.rule,
            subject=finding.subject,
            cluster_id=quorum.cluster_id or "",
            started_at_ms=now,
            due_at_ms=now,
            stood_ms=Millis(stood),
            last_seen_at_ms=now,
            summary=finding.summary,
            evidence=finding.evidence,
        )
    after = replace(
        before, last_seen_at_ms=now, clearing_since_ms=None, summary=finding.summary, evidence=finding.evidence
    )
    if after.told is None:
        after = replace(after, due_at_ms=Millis(after.started_at_ms + max(0, hold - after.stood_ms)))
        if now < after.due_at_ms and stood < hold:
            return after, None
        after = replace(after, told=finding.severity, cluster_id=after.cluster_id or quorum.cluster_id or "")
        return after, _firing(after, finding, quorum, due=min(after.due_at_ms, now))
    return _changed(after, after.told, finding, quorum, thresholds)


def _changed(
    standing: Standing, told: Severity, finding: Finding, quorum: Quorum, thresholds: Thresholds
) -> tuple[Standing, Alert | None]:
    now = quorum.now_ms
    if finding.severity is told:
        return replace(standing, milder_since_ms=None), None
    if _WORSE[finding.severity] > _WORSE[told]:
        after = replace(standing, told=finding.severity, milder_since_ms=None)
        return after, _firing(after, finding, quorum, due=now)
    since = now if standing.milder_since_ms is None else standing.milder_since_ms
    due = Millis(since + thresholds.ms(CLEAR))
    if now < due:
        return replace(standing, milder_since_ms=since), None
    after = replace(standing, told=finding.severity, milder_since_ms=None)
    return after, _firing(after, finding, quorum, due=due)


def _absent(standing: Standing, quorum: Quorum, thresholds: Thresholds) -> tuple[Standing | None, Alert | None]:
    if standing.told is None:
        return None, None
    now = quorum.now_ms
    since = now if standing.clearing_since_ms is None else standing.clearing_since_ms
    due = Millis(since + thresholds.ms(CLEAR))
    if now < due:
        return replace(standing, clearing_since_ms=since, milder_since_ms=None), None
    alert = Alert(
        cluster=quorum.cluster,
        cluster_id=standing.cluster_id,
        rule=standing.rule,
        subject=standing.subject,
        severity=standing.told,
        state=AlertState.RESOLVED,
        summary=f"resolved after {spelled(since - standing.started_at_ms)}: {standing.summary}",
        evidence=standing.evidence,
        remedy=(),
        started_at_ms=standing.started_at_ms,
        due_at_ms=due,
        observed_at_ms=now,
        offset=quorum.last_offset,
    )
    return None, alert


def _unknown(standing: Standing, quorum: Quorum) -> Standing | None:
    if standing.told is not None:
        return replace(standing, clearing_since_ms=None, milder_since_ms=None)
    return standing if quorum.now_ms - standing.last_seen_at_ms <= _PATIENCE_MS else None


def _firing(standing: Standing, finding: Finding, quorum: Quorum, *, due: Millis) -> Alert:
    return Alert(
        cluster=quorum.cluster,
        cluster_id=standing.cluster_id,
        rule=finding.rule,
        subject=finding.subject,
        severity=finding.severity,
        state=AlertState.FIRING,
        summary=finding.summary,
        evidence=finding.evidence,
        remedy=finding.remedy,
        started_at_ms=standing.started_at_ms,
        due_at_ms=due,
        observed_at_ms=quorum.now_ms,
        offset=quorum.last_offset,
    )
