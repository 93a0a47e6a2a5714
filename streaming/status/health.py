"""The verdict of one look in one word, and the exit code that `kraftwatch check` gives it.

Unknown is not healthy: a rule that cannot tell, a leader that did not answer, or our own blindness is `unknown`
unless something worse was found. `info` findings are no reason to be called.
"""

from collections.abc import Iterable
from enum import StrEnum

from rules.evaluate import BLIND
from rules.finding import Finding, Severity
from streaming.status.cluster_state import Glimpse


class Health(StrEnum):
    """How one cluster's quorum is, at one moment."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 warning, 2 critical, 3 cannot tell."""
        return {Health.HEALTHY: 0, Health.WARNING: 1, Health.CRITICAL: 2, Health.UNKNOWN: 3}[self]


def health(glimpse: Glimpse) -> Health:
    """The worst that stands, as far as could be seen."""
    found = {one.severity for one in of_the_quorum(glimpse.evaluation.findings)}
    if Severity.CRITICAL in found:
        return Health.CRITICAL
    if Severity.WARNING in found:
        return Health.WARNING
    blind = any(one.rule == BLIND for one in glimpse.evaluation.findings)
    if blind or glimpse.evaluation.unknown or glimpse.missing or glimpse.source == "none":
        return Health.UNKNOWN
    return Health.HEALTHY


def worst(each: Iterable[Health]) -> Health:
    """Of several clusters' the one to act on first: critical, warning, unknown, healthy."""
    return max(each, key=list(Health).index, default=Health.UNKNOWN)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Critical, warning, info; among equals by rule and subject, as they were judged."""
    return tuple(sorted(findings, key=lambda one: list(Severity).index(one.severity)))


def of_the_quorum(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings but for those about our own sight, which say nothing against the quorum."""
    return tuple(one for one in findings if one.rule != BLIND)
