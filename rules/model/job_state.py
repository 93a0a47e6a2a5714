"""JobState: what a job observes of itself at one time, which the rules in `rules.job` evaluate."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from rules.model.identifiers import Millis
from rules.model.monitoring import Reason

JOB_CLUSTER_ID: Final = "kraftwatch"
"""The cluster, and the cluster id, of alerts about the job itself. They match every pattern of clusters and rules,
unless they list clusters. No Kafka cluster has this id."""
_ZERO = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """The newest time at which the clock of the job's host was set."""

    before_ms: Millis
    """What it would have shown."""
    after_ms: Millis
    """What it showed."""
    at_ms: Millis
    """In the time of `JobState.now_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayState:
    """The relay of one cluster."""

    cluster: str
    topic: str
    newest_row_ms: Millis
    """When its newest row arrived; before the first one, when the job began to wait for it."""
    read_to_end_ms: Millis
    """When the topic was last read to its end: a row that is not there by then was not sent."""
    has_sent: bool
    """Whether a row has arrived since the job started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRows:
    """Rows of a relay's topic that were refused, of one cluster and for one reason."""

    cluster: str | None
    """Whose rows they claim to be; None: they are no rows."""
    part: str
    """What is wrong (`connectors.relay.relay_message.RefusedPart`)."""
    reason: str
    topic_partition: str
    offset: int
    appended_at_ms: Millis
    newest_ms: Millis
    """When the newest one was refused; the rest describes the first one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingLog:
    """Rows of one cluster that wait to be evaluated, because that takes longer than a batch may."""

    cluster: str
    size: int
    """Bytes."""
    since_ms: Millis
    """When the oldest one was observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindCluster:
    """A cluster of which nothing is observed."""

    name: str
    since_ms: Millis
    reasons: frozenset[Reason]
    """Why the attempts fail."""
    alert: str | None
    """The summary of its alert, if it fires already."""
    critical: bool
    """Whether the alert is, or will be, critical."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """One sink for notifications."""

    name: str
    known: bool = True
    """Whether the outcome of a call is known."""
    failing: str | None = None
    """Why delivery to it fails, as a whole or in part."""
    pending: int = 0
    """Transitions that wait for it."""
    not_accepted: tuple[str, ...] = ()
    """What the notifications are about that it does not accept while it accepts others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingDependency:
    """Something that the job needs and does not have now."""

    name: str
    """`store`, `topic`, `spark`, `cores`, `executors`, `checkpoint` or `disk`."""
    why: str
    """A sentence without its full stop."""
    since_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedContract:
    """A data contract that an audit found broken."""

    name: str
    suite: str
    """Which rows it is about, such as `observations`."""
    grave: bool
    """Whether an operator must act now: the data that alerts depend on, or a secret, is affected."""
    rows: int
    """Those that break it."""
    checked_rows: int
    clusters: tuple[str, ...]
    """Of the first rows that break it."""
    example: str | None
    """One of them as text; never a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """What the newest recorded audit found; no contract before the first one."""

    at_ms: Millis = _ZERO
    broken: tuple[AuditedContract, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """The job that notifies, its input and its sinks."""

    cluster: ClassVar[str] = JOB_CLUSTER_ID
    cluster_id: ClassVar[str] = JOB_CLUSTER_ID
    last_offset: ClassVar[None] = None
    now_ms: Millis
    watched_since_ms: Millis = _ZERO
    """Since when this job notifies."""
    clock_step: ClockStep | None = None
    relays: tuple[RelayState, ...] = ()
    refused: tuple[RefusedRows, ...] = ()
    waiting: tuple[WaitingLog, ...] = ()
    not_evaluated: tuple[str, ...] = ()
    """Clusters of which no status has come since the job started."""
    late_ms: Millis = _ZERO
    """How long after it was made the newest observation was evaluated."""
    monitored: int = 0
    """The number of configured clusters."""
    repeated_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The cluster ids that several configured clusters have, with the names of these."""
    without_id: tuple[str, ...] = ()
    """Clusters that answer, and whose cluster id is not known."""
    blind: tuple[BlindCluster, ...] = ()
    cut_off: Collection[str] = ()
    """The clusters that an alert which fires lists as not observed from this host."""
    cut_off_at_ms: Millis | None = None
    """When at least half of all were last not observed, while that alert fires."""
    sinks: tuple[SinkState, ...] = ()
    missing: tuple[MissingDependency, ...] = ()
    understudy_counts: bool = False
    """Whether the job's own process evaluates the rules, because Spark does not."""
    audit: AuditState | None = AuditState()
    """None: its results cannot be read."""
