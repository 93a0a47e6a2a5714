"""An Alert: one transition of a finding's life, as people and programs are told it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from rules.finding import Plain, Severity
from rules.model.identifiers import Millis, Offset


class AlertState(StrEnum):
    """What is told: it began (or changed severity), or it is over."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One line told. A change of severity is a new firing line with the same fingerprint and started_at."""

    cluster: str
    cluster_id: str
    rule: str
    subject: str
    severity: Severity
    state: AlertState
    summary: str
    evidence: Mapping[str, Plain]
    remedy: tuple[str, ...]
    started_at_ms: Millis
    """observed_at of the row that first showed the condition."""
    due_at_ms: Millis
    """When it could be told at the earliest.

    Firing: first sight plus hold, less what it had stood by its evidence's own clock. Resolved: the first row
    without it plus clear. A change of severity: the row that showed it (less severe: that row plus clear).
    """
    observed_at_ms: Millis
    """observed_at of the row that made this transition."""
    offset: Offset | None
    """The newest committed offset known at that row."""

    @property
    def fingerprint(self) -> str:
        """Identity of the alert over its whole life: of (cluster id, rule, subject), 16 hex digits."""
        return fingerprint(self.cluster_id, self.rule, self.subject)

    @property
    def key(self) -> tuple[str, str, str, Millis, str, str, Millis]:
        """Identity of this transition: what makes telling it twice the same telling.

        The row that made it is part of it: warning, critical and warning again are three transitions.
        """
        transition = (self.started_at_ms, self.state, self.severity, self.observed_at_ms)
        return (self.cluster_id, self.rule, self.subject, *transition)


@lru_cache(maxsize=20_000)
def fingerprint(cluster_id: str, rule: str, subject: str) -> str:
    """The alert's identity as 16 hex digits of SHA-256 over its three parts."""
    joined = "\x00".join((cluster_id, rule, subject)).encode("utf-8", "backslashreplace")
    return hashlib.sha256(joined).hexdigest()[:16]
