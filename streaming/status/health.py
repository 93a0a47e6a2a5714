"""The health of a cluster in one word, for the page, `check` and `status`, and the exit code of `kraftwatch check`.

Unknown is not healthy: a rule whose result is unknown, an answer that controllers in doubt decide, a leader that is not
known or did not answer, or a monitor that cannot observe the cluster is `unknown`, unless something worse was found. If
nothing at all is observed, only a critical finding is worse: a warning says what was true before. `info` findings do
not change the health, except that a cluster in which acknowledged records may be lost is never healthy.
"""

from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum

from rules.answers.worlds import undecided_text
from rules.claims.claim import Question, claim
from rules.claims.words import clause, sentence
from rules.evaluate import ALL_RULES, OBSERVATION_RULES, RECORDS_AT_RISK_RULES
from rules.finding import Finding, Severity
from rules.formatting import plural
from rules.rule import urgency
from streaming.status.cluster_status import ClusterStatus, FindingStatus, StatusSource

_QUESTIONS = {"failures_left": Question.FAILURES, "electable": Question.ELECTABLE}
"""The questions of `ClusterStatus.undecided`."""
NO_LEADER_KNOWN = "No controller is known to lead the quorum now"


class Health(StrEnum):
    """How healthy one cluster's quorum is, at one time; from best to worst."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 for the best one."""
        return list(Health).index(self)

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 warning, 2 critical, 3 unknown."""
        return {Health.HEALTHY: 0, Health.WARNING: 1, Health.CRITICAL: 2, Health.UNKNOWN: 3}[self]


def health(status: ClusterStatus) -> Health:
    """Returns the worst severity that was found, or unknown where not everything could be observed."""
    not_observed = any(finding.rule in OBSERVATION_RULES for finding in status.findings)
    gaps = status.unknown or status.undecided or status.missing
    unobserved = not_observed or gaps or status.source is StatusSource.NONE
    return health_of(
        {finding.severity for finding in status.findings if finding.rule not in OBSERVATION_RULES},
        records_at_risk=records_at_risk(status) is not None,
        known=not unobserved and status.leader_id is not None,
        observed=unobserved_quorum(status.findings) is None,
    )


def health_of(severities: Collection[Severity], *, records_at_risk: bool, known: bool, observed: bool) -> Health:
    """Returns the health, the same for every view.

    Args:
        severities: of the findings or firing alerts about the quorum.
        records_at_risk: acknowledged records may be lost.
        known: everything was observed, and a leader is known.
        observed: something was observed.
    """
    if Severity.CRITICAL in severities:
        return Health.CRITICAL
    if not observed:
        return Health.UNKNOWN
    if Severity.WARNING in severities or records_at_risk:
        return Health.WARNING
    return Health.HEALTHY if known else Health.UNKNOWN


def undecided_answers(status: ClusterStatus) -> Iterator[tuple[str, str]]:
    """Yields what of the quorum has no answer now, which controllers decide it, and how to find out."""
    for name, question in _QUESTIONS.items():
        if undecided := status.undecided.get(name):
            yield sentence(clause(claim(question))), undecided_text(undecided)


def records_at_risk(status: ClusterStatus) -> str | None:
    """Returns, as a sentence, that acknowledged records may be lost; None if nothing indicates it."""
    if recovering := status.recovering_partitions:
        verb = "is" if recovering == 1 else "are"
        return f"Acknowledged records may be lost: {plural(recovering, 'partition')} {verb} RECOVERING"
    found = sorted({finding.rule for finding in status.findings} & RECORDS_AT_RISK_RULES)
    return f"Acknowledged records may be lost: see {found[0]}" if found else None


def unobserved_quorum(findings: Iterable[FindingStatus]) -> FindingStatus | None:
    """Returns the finding that nothing of the quorum is observed: no controller answers, or reports a missing leader.

    None: something is observed.
    """
    return next((finding for finding in findings if finding.nothing_observed), None)


def worst(each: Iterable[Health]) -> Health:
    """Returns the health to act on first: critical, warning, unknown, healthy; unknown of no cluster."""
    return max(each, key=lambda one: one.rank, default=Health.UNKNOWN)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns the findings by `urgency`; equal ones keep their order."""
    return tuple(sorted(findings, key=lambda one: urgency(ALL_RULES[one.rule], one.severity)))
