"""An Alert: one transition of a condition to firing or resolved, as sinks send it."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeAlias

from rules.claims.claim import Claim
from rules.finding import NO_FACTS, FindingFacts, Plain, Severity
from rules.formatting import as_found
from rules.model.identifiers import Millis, Offset
from rules.model.subject import Subject

_NUMBERS: Final = re.compile(r"\d+")
LATE_MS: Final = Millis(60_000)
"""A row that is evaluated so long after it was observed is late: people are told by how much."""


AlertId: TypeAlias = tuple[str, Millis]
"""Identity of an alert from firing to resolved (`Alert.alert_id`): fingerprint and start."""
ClusterKey: TypeAlias = tuple[str, str]
"""A cluster: its name in the configuration, and its id. Neither is enough: ids are copied, names are given again."""
AlertKey: TypeAlias = tuple[str, str, str, str, Millis, str, str, Millis]
"""Identity of a transition (`Alert.key`): cluster, its id, rule, subject, start, state, severity, time of the row."""


class AlertState(StrEnum):
    """The state after the transition: the condition began (or changed its severity), or it is over."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One transition. A change of severity is a new firing alert with the same fingerprint and started_at."""

    cluster: str
    cluster_id: str
    rule: str
    subject: str
    severity: Severity
    state: AlertState
    summary: str
    evidence: Mapping[str, Plain]
    remedy: tuple[str, ...]
    facts: FindingFacts = NO_FACTS
    claims: tuple[Claim, ...] = ()
    """What the summary and the remedy say, for programs; the first is whether the condition lasts."""
    started_at_ms: Millis
    """observed_at of the first row with the condition."""
    due_at_ms: Millis
    """The earliest time at which the alert could be sent.

    Firing: the first row plus hold, less the condition's age by its evidence's own clock. Resolved: the first row
    without the condition plus clear. A change of severity: the row with the new severity (if lower: that row plus
    clear).
    """
    observed_at_ms: Millis
    """observed_at of the row that made this transition."""
    offset: Offset | None
    """The newest committed offset known at that row."""
    late_ms: Millis | None = field(default=None, compare=False)
    """How long after it was observed that row was evaluated, if it was late: the job worked off a backlog.

    It is no part of the alert's identity: the ledger notes it when it records the transition.
    """
    names_cluster: bool = False
    """Whether the name of the cluster is part of the fingerprint, as of each alert that begins now. An alert that an
    older build left open ends under the fingerprint with which it was sent."""
    stated: tuple[str, str] | None = field(default=None, compare=False)
    """What it said when the transition was recorded (`says`): the text is replaced by newer ones while it fires."""

    @property
    def about(self) -> Subject:
        """The subject whose text is stored."""
        return Subject.of(self.subject)

    @property
    def fingerprint(self) -> str:
        """Identity of the alert until it resolves: of the cluster, the rule and the subject, 16 hex digits."""
        return fingerprint(self.cluster if self.names_cluster else None, self.cluster_id, self.rule, self.subject)

    @property
    def of_cluster(self) -> ClusterKey:
        """The cluster, by what people call it too: images and tutorials ship cluster ids, and people copy them."""
        return self.cluster, self.cluster_id

    @property
    def alert_id(self) -> AlertId:
        """The same for all transitions from firing to resolved; an alert that fires again is another one."""
        return self.fingerprint, self.started_at_ms

    @property
    def key(self) -> AlertKey:
        """Identity of this transition: alerts with the same key are the same notification sent twice.

        The row that made the transition is part of it: warning, critical and warning again are three transitions.
        """
        transition = (self.started_at_ms, self.state, self.severity, self.observed_at_ms)
        return (*self.of_cluster, self.rule, self.subject, *transition)

    @property
    def says(self) -> tuple[str, str]:
        """Digests of the conclusion (the summary) and of the advice (the remedy), whatever the numbers in them."""
        return _digest(_NUMBERS.sub("0", as_found(self.summary))), _digest(_NUMBERS.sub("0", "\n".join(self.remedy)))

    def recorded(self, now_ms: Millis) -> "Alert":
        """Returns the transition with its lateness, where it is recorded at this time of the wall clock."""
        late_ms = Millis(now_ms - self.observed_at_ms)
        return replace(self, late_ms=late_ms) if late_ms >= LATE_MS else self


def fingerprint(cluster: str | None, cluster_id: str, rule: str, subject: str) -> str:
    """Returns the alert's identity: 16 hex digits of the SHA-256 of its parts; without the name as before 0.2.0."""
    return _digest("\x00".join((*(() if cluster is None else (cluster,)), cluster_id, rule, subject)))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
