"""A sink accepts no notifications, or not all: the people behind it are not notified.

What it means
    The subject names the sink: `sink NAME`, for the cluster `kraftwatch`, which is the job itself. It could not be
    notified for five minutes, or it refuses some notifications while it accepts others. Nothing is lost: what is
    pending is in the ledger, and is sent once the sink accepts it, each once. The alert goes to all other sinks.
    An answer of success that is not that of the service, or after which Alertmanager does not have the alert, is a
    failure too.

    If no sink for people accepts anything, kraftwatch can notify nobody: then the heartbeat stops, so that the service
    behind it alarms.

What to do
    1. Read the reason: it is what the service answered, or why it could not be reached. If another program answered,
       such as a proxy with its login form, check the URL and what is between.
    2. Tell the recipients by other means until it is fixed.
    3. Try it alone: `kraftwatch config check FILE --send-test` sends a test notification to each sink.

What not to do
    Do not delete the job's store to get rid of what is pending: the alerts that fire would be lost with it.
"""

from collections.abc import Iterable

from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.model.job_state import JobState, SinkState
from rules.model.subject import Subject
from rules.rule import JobRule

_MAX_LISTED = 10


def evaluate(job: JobState, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each sink that fails."""
    for sink in job.sinks:
        if not sink.known:
            yield UnknownResult(subject=subject_of(sink.name), why="the outcome of its next call is not known yet")
        elif sink.failing is not None:
            yield _finding(sink)


def subject_of(name: str) -> Subject:
    """Returns the subject of an alert about a sink."""
    return Subject("sink", name)


def _finding(sink: SinkState) -> Finding:
    count = len(sink.not_accepted)
    what = "1 notification" if count == 1 else f"{count} notifications"
    failing = f"The sink {sink.name} does not accept {what}, but accepts others"
    return Finding(
        subject=subject_of(sink.name),
        severity=Severity.WARNING,
        summary=f"{failing if count else f'Delivery to the sink {sink.name} fails'}: {sink.failing}.",
        evidence={
            "sink": sink.name,
            "reason": sink.failing,
            "waiting": sink.pending,
            **({"not_accepted": list(sink.not_accepted[:_MAX_LISTED])} if count else {}),
        },
        remedy=(
            f"# Fix the cause of the failure of {sink.name}: pending alerts are then delivered, each once",
            f"# Until then, inform the recipients of {sink.name} by other means",
        ),
    )


def _resolved(job: JobState, subject: Subject) -> str:
    if subject.name not in {sink.name for sink in job.sinks}:
        return f"The {subject} is no longer configured."
    return f"No delivery to the {subject} fails."


RULE = JobRule(
    title="A sink does not accept notifications",
    resolved=_resolved,
    hold=hold(300.0, "most services are back after a moment, and nothing is lost meanwhile"),
)
