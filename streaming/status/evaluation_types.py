"""Findings, unknown results, failed observations and pending conditions in a cluster status."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason
from streaming.status.field_types import STATUS_CONFIG


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingStatus:
    """A condition that a rule finds now. Holds are not applied."""

    __pydantic_config__: ClassVar[ConfigDict] = STATUS_CONFIG

    rule: str
    """Rule id."""
    subject: str
    """What the finding is about, for example `voter 2`."""
    severity: Severity
    """critical, warning or info."""
    summary: str
    """The finding in one or two sentences."""
    hold_s: float = 0.0
    """How long the condition must last before a job's alert fires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownRule:
    """A rule whose result is unknown, because evidence is missing."""

    __pydantic_config__: ClassVar[ConfigDict] = STATUS_CONFIG

    rule: str
    """Rule id."""
    subject: str | None
    """What the result would be about; null for the whole rule."""
    why: str
    """Which evidence is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicableRule:
    """A rule that does not apply to this cluster."""

    __pydantic_config__: ClassVar[ConfigDict] = STATUS_CONFIG

    rule: str
    """Rule id."""
    why: str
    """Why it does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSeverity:
    """A rule whose severity the configuration changes. A rule that it disables is not applicable."""

    __pydantic_config__: ClassVar[ConfigDict] = STATUS_CONFIG

    rule: str
    """Rule id."""
    severity: Severity
    """The severity of all findings of the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingObservation:
    """A data source of the cluster that fails now."""

    __pydantic_config__: ClassVar[ConfigDict] = STATUS_CONFIG

    source: ObservationSource
    """log: the metadata log; quorum: DescribeQuorum; probe: an endpoint probe; view: a node's view of the leader."""
    endpoint: str | None
    """HOST:PORT that was asked; null where none was."""
    reason: Reason
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCondition:
    """A condition whose hold has not expired: it becomes an alert at `due_at_ms`."""

    __pydantic_config__: ClassVar[ConfigDict] = STATUS_CONFIG

    rule: str
    """Rule id."""
    subject: str
    """What the condition is about."""
    summary: str
    """The condition in one or two sentences."""
    started_at_ms: Millis
    """When it was first found, by the monitor's clock."""
    due_at_ms: Millis
    """When its hold expires, by the monitor's clock."""
