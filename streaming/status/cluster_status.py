"""`ClusterStatus`: the state of one cluster's quorum, as the CLI, the page, the metrics and the API show it.

`build_status.cluster_status` makes it from a `ClusterState`. What it only repeats are the model's own dataclasses.
Programs rely on its JSON: that of `status`, `replication` and `partitions --json`, and `/api/clusters`. The schema is
docs/status.schema.json. A time is ISO 8601 there, under its name without `_ms`; in Python it is in milliseconds.
Values that `kafka-metadata-quorum describe` prints have its name in snake_case and its meaning
(MetadataQuorumCommand); its -1 is null here.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from rules.answers.broker_restart import AffectedPartitions
from rules.answers.refusal import Refusal
from rules.answers.worlds import Undecided
from rules.claims.claim import Claim
from rules.facts.quorum import Facts
from rules.facts.witnesses import Reach
from rules.finding import Evaluation, NotApplicable, Plain, Severity, Thresholds, UnknownResult
from rules.formatting import iso
from rules.model.history import ControllerStart, Election, NodeKind, Recovery, UncleanElections, VoterChange
from rules.model.identifiers import Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import ObservationSource, Reason
from rules.model.quorum import Quorum
from streaming.status.job_alerts import AcknowledgedAlert, FiringAlert, JobAlerts
from streaming.status.log_dir_status import LogDirContents, LogDirStatus
from streaming.status.voters import (
    CertificateStatus,
    CommittedVoters,
    PendingVoters,
    RegistrationWithoutVoter,
    ReplicaStatus,
    VoterEndpoints,
    VoterEndpointStatus,
)


class StatusSource(StrEnum):
    """Where a status comes from."""

    LIVE = "live"
    JOURNAL = "journal"
    LOG_DIR = "log-dir"
    NONE = "none"


class QuorumMode(StrEnum):
    """Where the voters are configured."""

    DYNAMIC = "dynamic"
    STATIC = "static"


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
    nothing_observed: bool = False
    """Whether the finding is that nothing of the quorum is observed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownStatus:
    """The rule cannot be evaluated now. Its firing alerts keep firing until it can be evaluated again."""

    rule: str
    """Rule id."""
    subject: str | None
    """The one subject whose state is unknown; without it, all subjects of the rule."""
    why: str
    """One sentence: what is not observed, and since when."""

    @classmethod
    def of(cls, result: UnknownResult) -> "UnknownStatus":
        """Returns an unknown result with its subject as text."""
        subject = None if result.subject is None else str(result.subject)
        return cls(rule=result.rule, subject=subject, why=result.why)


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
    """A condition whose hold has not expired: it becomes an alert at `due_at`."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCounts:
    """Registered and fenced brokers."""

    registered: int
    """Number of registered brokers."""
    fenced: tuple[NodeId, ...]
    """Node ids of the registered brokers that are fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveringPartition(Recovery):
    """A partition whose LeaderRecoveryState is RECOVERING (KIP-704), with what else the quorum shows of it."""

    for_ms: Millis | None
    """Time from `since_timestamp` to the newest record of the log."""
    replicas_alive: tuple[NodeId, ...]
    """Assigned replicas whose broker is registered and not fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecovery:
    """The recovering partitions of one topic."""

    topic: str | None
    """Topic name; null where the log does not hold it."""
    topic_id: str
    """Topic id."""
    since_ms: Millis
    """Since when the topic's oldest recovering partition is RECOVERING, by the controllers' clock."""
    at_least: bool
    """That partition was RECOVERING already at `since`: the beginning is unknown."""
    partitions: int
    """Number of recovering partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartStatus:
    """Whether a node may be restarted now, as `safe-to-restart` answers."""

    node: NodeId
    """The node.id."""
    roles: tuple[NodeKind, ...]
    """Its roles: a node of both needs both answers."""
    safe: bool | None
    """null: nothing is known against it, and not all is known that it needs."""
    against: tuple[str, ...]
    """Why it is not safe, the most important reason first."""
    reasons: tuple[Refusal, ...] = ()
    """The same, each with its name and with what ends it."""
    unknown: tuple[str, ...]
    """What is not known and may make it unsafe."""
    undecided: tuple[Undecided, ...] = ()
    """The controllers that decide it, why, and what to do to find out."""
    claims: tuple[Claim, ...] = ()
    """The answer and what it rests on, as values."""
    notes: tuple[str, ...] = ()
    """What to know besides."""
    remaining: tuple[NodeId, ...] | None
    """Of a controller: the other voters that are in sync and reachable."""
    votes_needed: int | None
    """Of a controller: the votes that win an election."""
    partitions: AffectedPartitions | None
    """Of a broker: how many partitions its restart affects."""
    observed_since_ms: Millis | None = None
    """All that it rests on was observed since: the log, the poll, each voter's endpoint, of a broker also the last
    fetch of each other broker; null: something was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The state of one cluster's metadata quorum at one time. Unknown is null, never 0 or -1."""

    # It holds for the dataclasses of the fields too. A field's docstring is its description in docs/status.schema.json.
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    cluster: str
    """Name of the cluster in the configuration; the folder where `--log-dir` was read."""
    cluster_id: str | None
    """Kafka's cluster id."""
    source: StatusSource
    """live: a leader answers now; journal: recorded state, no leader answers; log-dir: read from one controller's
    disk; none: no leader answers and nothing was recorded."""
    age_ms: Millis | None
    """Age of a recorded state; 0 for a live one, null for a disk without a record."""
    observed_at_ms: Millis | None
    """Time of the newest observation, by the monitor's clock."""
    recorded_at_ms: Millis | None = None
    """Time of the newest observation of a job in this state: what is older is the job's; null: no job's state is known,
    or a disk was read."""
    missing: tuple[str, ...]
    """Data that was requested and did not arrive, as text."""
    leader_id: NodeId | None
    """Node id of the leader; null while no node leads."""
    leader_epoch: Epoch | None
    """The newest known leader epoch."""
    high_watermark: Offset | None
    """Records below this offset are committed."""
    max_follower_lag: int | None
    """Records that the voter with the shortest log lacks; null without a leader or a current poll."""
    max_follower_lag_time_ms: Millis | None
    """Time since that voter was last caught up, by the leader's clock."""
    current_voters: tuple[VoterEndpoints, ...]
    """The leader's voter set, committed or not."""
    current_observers: tuple[ReplicaKey, ...]
    """Observers, brokers included."""
    could_be_voters: tuple[ReplicaKey, ...]
    """Observers that can be added to the voters: registered controllers with a directory id."""
    committed_voters: CommittedVoters | None
    """The newest committed voter set; null where the log holds none."""
    pending_voters: PendingVoters | None
    """Voter change that is not committed; null where one of the two sets is unknown."""
    initial_controllers: str | None
    """The committed voters as an argument of `kafka-storage format --initial-controllers`."""
    endpoints: tuple[VoterEndpointStatus, ...]
    """The endpoint of each voter: recorded in the log, or of a static quorum the leader's configured one."""
    certificates: tuple[CertificateStatus, ...] = ()
    """The certificate that each controller presents, by node id; empty without TLS."""
    reaches: tuple[Reach, ...] = ()
    """Whether each voter reaches each other one, as their own hosts see it, and each broker and observer that has a
    witness each voter; empty if none reports it."""
    registrations_without_voter: tuple[RegistrationWithoutVoter, ...]
    """Registered controllers that are not committed voters."""
    voters: int | None
    """Number of voters: of the leader's latest set, or of the committed one while no leader answers."""
    votes_needed: int | None
    """Votes that win an election, and replicas that commit a record."""
    voters_fetching: int | None
    """Voters that fetch from the leader, the leader included."""
    failures_tolerated: int | None
    """How many voters may fail when all are active."""
    failures_left: int | None
    """How many more voters may fail now: in sync, with a vote and reachable are left; below 0 without a majority."""
    electable: bool | None
    """Whether a leader could be elected if all controllers restarted now, by the endpoints that they dial."""
    undecided: Mapping[str, tuple[Undecided, ...]] = field(default_factory=dict)
    """If `failures_left` or `electable` is unknown: which controllers decide it, why, and what to do to find out."""
    claims: tuple[Claim, ...] = ()
    """The same as values, of the quorum and of each voter: what the alerts of this moment are compared with."""
    recovering_partitions: int | None
    """Number of partitions whose LeaderRecoveryState is RECOVERING (KIP-704)."""
    brokers: BrokerCounts | None
    """Registered and fenced brokers."""
    mode: QuorumMode | None
    """dynamic: voters are records of the log (KIP-853); static: voters are set by controller.quorum.voters."""
    kraft_version: int | None
    """Finalized level of kraft.version."""
    metadata_version: int | None
    """Finalized level of metadata.version."""
    last_offset: Offset | None
    """Offset of the newest record that was applied."""
    elections: tuple[Election, ...] = ()
    """Elections of the hour before the newest one, oldest first; a snapshot holds none."""
    voter_changes: tuple[VoterChange, ...] = ()
    """Changes of the voter set that were read in the log, oldest first."""
    log_dir: LogDirStatus | None
    """The log directory; null unless `--log-dir` was read."""
    restarts: tuple[RestartStatus, ...] = ()
    """Of a job: whether each node may be restarted now, controllers first; at most 200 nodes."""
    findings: tuple[FindingStatus, ...] = ()
    """What the rules find now, most severe first."""
    unknown: tuple[UnknownStatus, ...] = ()
    """Rules whose result is unknown."""
    failing: tuple[FailingObservation, ...] = ()
    """Data sources that fail now."""
    now_ms: Millis
    """Time of the newest observation, milliseconds since the epoch; 0 where there is none."""
    described_at_ms: Millis | None
    """When DescribeQuorum was last answered, by the monitor's clock."""
    log_fetched_at_ms: Millis | None
    """When the metadata log was last fetched, by the monitor's clock."""
    newest_timestamp_ms: Millis | None
    """Timestamp of the newest record that was applied, by the controllers' clock."""
    leaderless: bool
    """Nodes report that no controller leads, or all controllers refuse connections."""
    registered_at_ms: Mapping[NodeId, Millis]
    """When each controller last registered, by node id and the controllers' clock."""
    replicas: tuple[ReplicaStatus, ...]
    """The rows of the newest DescribeQuorum: leader, other voters, observers."""
    recovering: tuple[RecoveringPartition, ...] = ()
    """Recovering partitions, longest first: at most 2,000 except in `partitions --json`."""
    recoveries: tuple[TopicRecovery, ...] = ()
    """Recovering partitions by topic, longest first: at most 200 topics."""
    starts: tuple[ControllerStart, ...] = ()
    """Starts of controllers, oldest first."""
    unclean: tuple[UncleanElections, ...] = ()
    """Unclean leader elections by topic, oldest first."""
    pending: tuple[PendingCondition, ...] = ()
    """Conditions whose hold has not expired, the next one due first: at most 200. Only a running job has them."""
    acknowledged: tuple[AcknowledgedAlert, ...] = ()
    """Firing alerts on which a person works. Only what reads the job's alerts has them: the page and its API, and
    `status` and `check` with --config or --journal."""
    firing: tuple[FiringAlert, ...] = ()
    """The job's firing alerts, with their silences, by the same sources."""
    not_applicable: tuple[NotApplicable, ...] = ()
    """Rules that do not apply to this cluster, or that the configuration disables."""
    changed_severities: tuple[ChangedSeverity, ...] = ()
    """Rules whose severity the configuration changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """One cluster at one time: what is known of it, the evaluation of it, and how much of it was observed."""

    facts: Facts
    evaluation: Evaluation
    thresholds: Mapping[str, Thresholds] = field(repr=False)
    """By rule id."""
    taken_at_ms: Millis
    """When the state was taken, by the wall clock."""
    queried_since_ms: Millis | None
    """When the query of the cluster began; None for a recorded state."""
    recorded_at_ms: Millis | None
    """Time of the newest recorded row; None where no journal was read."""
    missing: tuple[str, ...]
    """Data that was requested and did not arrive, as text."""
    log_dir: LogDirContents | None = None
    """The log directory that was read; None where a cluster was queried or a journal was read."""

    @property
    def quorum(self) -> Quorum:
        """What was observed."""
        return self.facts.quorum

    @property
    def answered(self) -> bool:
        """Whether a leader answered the log or DescribeQuorum since the query began."""
        since, quorum = self.queried_since_ms, self.quorum
        answers = (quorum.log_fetched_at_ms, quorum.poll.observed_at_ms if quorum.poll else None)
        return since is not None and any(at is not None and at >= since for at in answers)

    @property
    def source(self) -> StatusSource:
        """Where the state comes from."""
        if self.answered:
            return StatusSource.LIVE
        if self.log_dir is not None:
            return StatusSource.LOG_DIR
        return StatusSource.NONE if self.recorded_at_ms is None else StatusSource.JOURNAL

    @property
    def age_ms(self) -> Millis | None:
        """Age of the state; 0 for a live one, None for that of a disk without a record."""
        if self.answered or self.recorded_at_ms is None:
            return None if self.source is StatusSource.LOG_DIR else Millis(0)
        return Millis(max(0, self.taken_at_ms - self.recorded_at_ms))


_TIME = re.compile(r"(?:^|_)(?:at|since|until|timestamp)_ms$")
"""The names of times; any other `_ms` is a duration, and `now_ms` the time of the newest observation as a number."""
_TIME_TYPES = '"type": "integer"', '"format": "date-time", "type": "string"'
_HEAD = ("cluster", "cluster_id", "source", "age_ms", "observed_at_ms", "recorded_at_ms", "missing")
"""Fields of `ClusterStatus` that `replication` and `partitions` share with `status`."""


@cache
def status_adapter() -> TypeAdapter[ClusterStatus]:
    """Returns pydantic's adapter of `ClusterStatus`; making it takes some tens of milliseconds."""
    return TypeAdapter(ClusterStatus)


def status_json(status: ClusterStatus, fields: Iterable[str] | None = None) -> dict[str, Plain]:
    """Returns the status as plain data: `status --json` and `/api/clusters/NAME`.

    Args:
        fields: which of `ClusterStatus` by name, in its order; None: all.
    """
    include = None if fields is None else set(fields)
    plain: dict[str, Plain] = _with_iso_times(status_adapter().dump_python(status, mode="json", include=include))
    return plain


@lru_cache(1_024)
def json_name(name: str) -> str:
    """Returns the name in JSON: a time is ISO 8601 UTC text there, under its name without `_ms`."""
    return name.removesuffix("_ms") if _TIME.search(name) else name


def _with_iso_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_iso_times(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        (new := json_name(name)): _with_iso_times(one) if new == name else _iso_time(one) for name, one in value.items()
    }


def _iso_time(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _iso_time(one) for key, one in value.items()}
    return None if value is None else iso(value)


def schema_with_iso_times(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the JSON Schema of an object with its times as `status_json` writes them."""
    if "properties" not in schema:
        return schema
    properties = {
        (new := json_name(name)): one if new == name else json.loads(json.dumps(one).replace(*_TIME_TYPES))
        for name, one in schema["properties"].items()
    }
    return {**schema, "properties": properties, "required": [*map(json_name, schema.get("required", ()))]}


def with_job_alerts(status: ClusterStatus, alerts: JobAlerts, now_ms: Millis) -> ClusterStatus:
    """Returns the status with the job's alerts of its cluster, and who has acknowledged or silenced them."""
    acknowledged, firing = alerts.of_cluster(status.cluster, now_ms)
    return replace(status, acknowledged=acknowledged, firing=firing)


def replication_json(status: ClusterStatus) -> dict[str, Plain]:
    """Returns the fields of `replication --json`."""
    return status_json(status, (*_HEAD, "leader_id", "leader_epoch", "described_at_ms", "replicas"))


def partitions_json(status: ClusterStatus) -> dict[str, Plain]:
    """Returns the fields of `partitions --json`."""
    return status_json(status, (*_HEAD, "recovering"))


def to_bytes(status: ClusterStatus) -> bytes:
    """Returns the whole status as UTF-8 JSON for `from_json`: its times are milliseconds."""
    return status_adapter().dump_json(status)


def from_json(body: str | bytes) -> ClusterStatus:
    """Returns the status that `to_bytes` wrote; pydantic.ValidationError if it is not such an object."""
    return status_adapter().validate_json(body)
