"""The health of a cluster in one word, and the exit code that `kraftwatch check` gives it.

Unknown is not healthy: a rule whose result is unknown, a leader that did not answer, or a monitor that cannot
observe the cluster is `unknown`, unless something worse was found. `info` findings do not change the health.
"""

from collections.abc import Iterable
from enum import StrEnum

from rules.evaluate import BLIND
from rules.finding import Finding, Severity
from streaming.status.cluster_state import ClusterState
from streaming.status.cluster_status import StatusSource


class Health(StrEnum):
    """How healthy one cluster's quorum is, at one time; from best to worst."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def exit_code(self) -> int:
        """0 healthy, 1 warning, 2 critical, 3 unknown."""
        return {Health.HEALTHY: 0, Health.WARNING: 1, Health.CRITICAL: 2, Health.UNKNOWN: 3}[self]


def health(state: ClusterState) -> Health:
    """Returns the worst severity that was found, or unknown where not everything could be observed."""
    severities = {one.severity for one in of_the_quorum(state.evaluation.findings)}
    if Severity.CRITICAL in severities:
        return Health.CRITICAL
    if Severity.WARNING in severities:
        return Health.WARNING
    blind = any(one.rule == BLIND for one in state.evaluation.findings)
    if blind or state.evaluation.unknown or state.missing or state.source is StatusSource.NONE:
        return Health.UNKNOWN
    return Health.HEALTHY


def worst(each: Iterable[Health]) -> Health:
    """Returns the health to act on first: critical, warning, unknown, healthy; unknown of no cluster."""
    return max(each, key=list(Health).index, default=Health.UNKNOWN)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns critical findings, then warnings, then infos; equal severities keep their order."""
    return tuple(sorted(findings, key=lambda one: list(Severity).index(one.severity)))


def of_the_quorum(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns the findings without those about the monitor's own visibility."""
    return tuple(one for one in findings if one.rule != BLIND)
