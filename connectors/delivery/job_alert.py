"""Alerts about the job itself, and the end of an alert that no rule resolves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rules.alert import Alert, AlertState
from rules.finding import Plain, Severity
from rules.formatting import resolved_summary
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID


def job_alert(
    rule: str,
    subject: str,
    severity: Severity,
    *,
    summary: str,
    evidence: Mapping[str, Plain],
    remedy: Sequence[str],
    started_at_ms: Millis,
    now_ms: Millis,
    due_at_ms: Millis | None = None,
) -> Alert:
    """Returns a firing alert of the cluster `kraftwatch`; its summary, evidence and remedy are as of a finding.

    Args:
        rule: the id of the rule whose page explains it.
        subject: what of the job it is about.
        started_at_ms: when the condition began.
        due_at_ms: when it had lasted for its hold; None: now.
    """
    return Alert(
        cluster=JOB_CLUSTER_ID,
        cluster_id=JOB_CLUSTER_ID,
        rule=rule,
        subject=subject,
        severity=severity,
        state=AlertState.FIRING,
        summary=summary,
        evidence=evidence,
        remedy=tuple(remedy),
        started_at_ms=started_at_ms,
        due_at_ms=now_ms if due_at_ms is None else due_at_ms,
        observed_at_ms=now_ms,
        offset=None,
    )


def firing_job_alert(firing: Iterable[Alert], subject: str) -> Alert | None:
    """Returns the alert of the cluster `kraftwatch` with this subject, of the firing alerts of the ledger."""
    return next((each for each in firing if (each.cluster_id, each.subject) == (JOB_CLUSTER_ID, subject)), None)


def resolved_alert(firing: Alert, now_ms: Millis, now: str) -> Alert:
    """Returns the transition that resolves a firing alert at `now_ms`, the wall clock; `now` says what is true now.

    If the clock was set back meanwhile, it is observed when the firing one was, and not before.
    """
    return replace(
        firing,
        state=AlertState.RESOLVED,
        summary=resolved_summary(now, now_ms),
        remedy=(),
        due_at_ms=now_ms,
        observed_at_ms=Millis(max(now_ms, firing.observed_at_ms)),
    )
