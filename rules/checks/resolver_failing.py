"""The resolver on the monitor's host fails: names that no longer exist would not be noticed.

What it means
    Connections that are open go on, so the quorum is observed. Whether the names of the voters' recorded endpoints
    exist is unknown. A connection that ends cannot be opened again: if the quorum is not observed, `monitor-blind`
    reports it, with this reason, and this rule is unknown.

What to do
    1. Fix name resolution on the monitor's host: `getent hosts NAME`, `/etc/resolv.conf`, the name servers in it.
    2. Check that the controllers' hosts resolve names: they may use the same name servers.

What not to do
    Do not restart a controller or kraftwatch while its name servers may be those that fail: it would not find the
    others.
"""

from collections.abc import Iterable

from rules.facts.freshness import last_answers, unanswered_sources
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join
from rules.model.monitoring import Reason, Resolution
from rules.model.subject import Subject
from rules.rule import Rule

_NAMES = Subject("names")


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns at most one result: about all names."""
    quorum = facts.quorum
    limit = quorum.now_ms - quorum.ages.probe_ms
    recent = [probe for _, probe in sorted(quorum.probes.items()) if probe.observed_at_ms >= limit]
    failed = [probe for probe in recent if probe.resolution is Resolution.RESOLVER_FAILED]
    if any(probe.observed_at_ms < quorum.watched_since_ms for probe in failed):
        yield UnknownResult(subject=_NAMES, why="not every name was looked up since the newest gap")
        return
    if not recent and facts.nodes.voters:
        yield UnknownResult(subject=_NAMES, why="no name was looked up recently")
    if not failed:
        return
    unanswered = unanswered_sources(quorum)
    named = any(
        failure.reason is Reason.RESOLVER_FAILED and failure.source in unanswered for failure in quorum.failures
    )
    if named or len(unanswered) == len(last_answers(quorum)):
        yield UnknownResult(subject=_NAMES, why="monitor-blind reports what is not observed")
        return
    hosts = sorted({probe.endpoint.host for probe in failed})
    yield Finding(
        subject=_NAMES,
        severity=Severity.WARNING,
        summary=f"Name resolution fails on the monitor's host: {and_join(hosts, 4)}. A voter's name that no longer "
        "exists would not be noticed.",
        evidence={
            "vantage": quorum.vantage.value,
            "hosts": [*hosts],
            "resolver_errors": [*sorted({probe.detail for probe in failed if probe.detail})],
        },
        remedy=("# Fix name resolution on the monitor's host: its resolver gives no answer, not even NXDOMAIN",),
    )


def _resolved(facts: Facts, _subject: Subject) -> str:
    quorum = facts.quorum
    answers = {Resolution.RESOLVED, Resolution.NAME_NOT_FOUND}
    current = (
        probe for probe in quorum.probes.values() if quorum.is_current(probe.observed_at_ms, quorum.ages.probe_ms)
    )
    if any(probe.resolution in answers for probe in current):
        return "The resolver of the monitor's host answers."
    return "No lookup by the resolver of the monitor's host is known to fail now."


RULE = Rule(
    title="Name resolution fails on the monitor's host",
    resolved=_resolved,
    hold=hold(30.0),
    needs=(Need.METADATA_LOG,),
    about_observation=True,
    grouped_with=("monitor-blind",),
)
