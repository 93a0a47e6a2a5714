"""Findings, unknown results, failed observations and pending conditions in a cluster status."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from connectors.sinks.alert_json import from_iso, iso
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason


def _from_json(value: object) -> object:
    return from_iso(value) if isinstance(value, str) else value


UtcTime: TypeAlias = Annotated[
    Millis,
    BeforeValidator(_from_json),
    PlainSerializer(iso, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""Milliseconds since the epoch in Python; ISO 8601 UTC with milliseconds in JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingStatus:
    """A condition that a rule finds now. Holds are not applied."""

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

    rule: str
    """Rule id."""
    subject: str | None
    """What the result would be about; null for the whole rule."""
    why: str
    """Which evidence is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicableRule:
    """A rule that does not apply to this cluster."""

    rule: str
    """Rule id."""
    why: str
    """Why it does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSeverity:
    """A rule whose severity the configuration changes. A rule that it disables is not applicable."""

    rule: str
    """Rule id."""
    severity: Severity
    """The severity of all findings of the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingObservation:
    """A data source of the cluster that fails now."""

    source: ObservationSource
    """log: the metadata log; quorum: DescribeQuorum; probe: an endpoint probe; view: a node's view of the leader."""
    endpoint: str | None
    """HOST:PORT that was asked; null where none was."""
    reason: Reason
    """Why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCondition:
    """A condition whose hold has not expired: it becomes an alert at `due_at_ms`."""

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
