"""The JSON objects of the API, with what each field means: requests are checked by them, answers are made as them.

Later versions may add fields to answers.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints, with_config
from typing_extensions import TypedDict

from connectors.sinks.alert_json import OBJECT, AlertObject, SilenceObject
from rules.answers.broker_restart import AffectedPartitions
from rules.answers.refusal import Refusal
from rules.answers.worlds import Undecided
from rules.claims.claim import Claim
from rules.finding import Severity
from rules.notifications.route import LONGEST_COMMENT, LONGEST_NAME
from streaming.status.cluster_status import ClusterStatus
from streaming.status.health import Health

_NO_NUL = r"^[^\x00]*$"
"""PostgreSQL cannot store this character."""
_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME, pattern=_NO_NUL)]
_Pattern = Annotated[str, Field(min_length=1, max_length=200)]
_Comment = Annotated[str, StringConstraints(strip_whitespace=True, max_length=LONGEST_COMMENT, pattern=_NO_NUL)]


class _Body(BaseModel):
    model_config = OBJECT


class NewAcknowledgement(_Body):
    """Acknowledges a firing alert, in place of its former acknowledgement."""

    fingerprint: str
    """The alert's fingerprint."""
    by: _Text
    """Who works on it."""
    until: AwareDatetime | None = None
    """When it ends; null: when the alert resolves or gets a higher severity."""
    comment: _Comment = ""
    """A note for the next person on call."""


class NewSilence(_Body):
    """Silences the alerts that match all patterns (`*`, `?`, `[abc]`); one of them must be given."""

    cluster: _Pattern = "*"
    """The cluster's name."""
    rule: _Pattern = "*"
    """The rule's id."""
    subject: _Pattern = "*"
    """The alert's subject."""
    severity: _Pattern = "*"
    """critical, warning or info."""
    ends_at: AwareDatetime
    """When it ends."""
    author: _Text
    """Who silences."""
    comment: Annotated[_Comment, Field(min_length=1)]
    """The reason."""


@with_config(OBJECT)
class AcknowledgementObject(TypedDict):
    """The acknowledgement of a firing alert."""

    fingerprint: str
    """The alert's fingerprint."""
    cluster: str
    """The alert's cluster."""
    rule: str
    """The alert's rule."""
    subject: str
    """The alert's subject."""
    severity: Severity
    """The alert's severity."""
    started_at: str
    """When the alert's condition was first observed, ISO 8601."""
    by: str
    """Who works on it."""
    at: str
    """When it was acknowledged, ISO 8601."""
    until: str | None
    """When it ends; null: when the alert resolves."""
    comment: str
    """The person's note."""


@with_config(OBJECT)
class RecoveredTopic(TypedDict):
    """Partitions of a topic whose recovery ended."""

    topic: str | None
    """The topic's name."""
    topic_id: str
    """The topic's id."""
    since: str
    """When it began, ISO 8601."""
    ended: str
    """When it ended, ISO 8601."""


@with_config(OBJECT)
class ClusterRow(TypedDict):
    """One cluster in short."""

    name: str
    """The name in the configuration."""
    cluster_id: str | None
    """Kafka's cluster id."""
    health: Health
    """critical, warning, unknown or healthy."""
    headline: str
    """The worst fault in one sentence."""
    age_ms: int | None
    """Age of the status."""
    observed_at: str | None
    """Time of the newest observation, ISO 8601."""
    source: str | None
    """`live`, or `journal` while no leader answers."""
    alerts: Mapping[Severity, int]
    """Number of firing alerts by severity."""
    pending: int
    """Number of pending conditions."""
    leader_id: int | None
    """Node id of the leader."""
    leader_epoch: int | None
    """The newest known leader epoch."""
    voters: int | None
    """Number of voters."""
    votes_needed: int | None
    """Votes that win an election."""
    voters_fetching: int | None
    """Voters that fetch from the leader, the leader included."""
    failures_left: int | None
    """How many more voters may fail now."""
    recovering_partitions: int | None
    """Number of recovering partitions."""


@with_config(OBJECT)
class ClusterObject(ClusterRow):
    """One cluster."""

    status: ClusterStatus | None
    """The object of `kraftwatch status --json`."""
    firing: list[AlertObject]
    """The newest transition of each firing alert."""
    history: list[AlertObject]
    """The newest 500 transitions, oldest first."""
    recovered: list[RecoveredTopic]
    """Topics whose recovery ended since the job started."""
    silences: list[SilenceObject]
    """Active and future silences that may match alerts of this cluster."""


@with_config(OBJECT)
class RestartObject(TypedDict):
    """Whether a node may be restarted, by the job's newest status of its cluster."""

    cluster: str
    """Name of the cluster in the configuration."""
    cluster_id: str | None
    """Kafka's cluster id."""
    observed_at: str | None
    """Time of the newest observation that the answer rests on."""
    node: int
    """The node.id."""
    roles: list[str]
    """controller, broker, or both."""
    safe: bool | None
    """The answer; null: unknown, which is not safe."""
    against: list[str]
    """Why it is not safe, the most important reason first."""
    reasons: list[Refusal]
    """The same, each with its name and with what ends it."""
    left_out: list[Refusal]
    """The reasons that `despite` leaves out."""
    unknown: list[str]
    """What is not known and may make it unsafe."""
    undecided: list[Undecided]
    """The controllers that decide it, why, and what to do to find out."""
    claims: list[Claim]
    """The answer and what it rests on, as values."""
    notes: list[str]
    """What to know besides."""
    remaining: list[int] | None
    """Of a controller: the other voters that are in sync and reachable."""
    votes_needed: int | None
    """Of a controller: the votes that win an election."""
    partitions: AffectedPartitions | None
    """Of a broker: how many partitions its restart affects."""
    observed_since: str | None
    """All that it rests on was observed since; null: something was not."""
    current: bool
    """Whether that is later than `since`, and the status is new."""


@with_config(OBJECT)
class RecordedObject(TypedDict):
    """What the job has recorded of one cluster. It holds no secret; only kraftwatch reads it."""

    settings: dict[str, Any]
    """Name, addresses and thresholds with which the job evaluates it."""
    newest_ms: int
    """Time of the newest observation in it, in milliseconds."""
    state: str
    """The state in the form of a checkpoint, base64: of use to the same version of kraftwatch only."""


@with_config(OBJECT)
class SinkObject(TypedDict):
    """The delivery to one sink."""

    name: str
    """Its name."""
    pending: int
    """Transitions that are not delivered yet."""
    silenced: int
    """Firing alerts that a silence holds back."""
    failing: str | None
    """Why delivery fails."""
    set_aside: int
    """Notifications that the sink does not accept while it accepts others."""


@with_config(OBJECT)
class FleetObject(TypedDict):
    """All clusters."""

    now_ms: int
    """The job's clock, milliseconds since the epoch."""
    counts: Mapping[Health, int]
    """Number of clusters by health."""
    clusters: list[ClusterRow]
    """The clusters, worst first."""
    delivered_at_ms: int | None
    """Time of the newest delivery to the sinks."""
    sinks: list[SinkObject]
    """The sinks."""
    engine: str | None
    """What evaluates the rules: spark, or understudy (the job's own process, while Spark does not); null while
    neither does."""
    engine_since_ms: int | None
    """Since when."""


class Problem(BaseModel):
    """Why a request is refused."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    status: str
    """One sentence."""
