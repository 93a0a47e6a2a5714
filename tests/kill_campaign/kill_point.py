"""The named points at which a process of the job is killed: a function, and the moment relative to its call."""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """A process of the job."""

    DRIVER = "driver"
    GATHERER = "gatherer"
    PLANNER = "planner"
    """Spark's Python process that reads the journal beside the driver."""
    WORKER = "worker"
    """A Python process of an executor: it decodes and steps."""
    JAVA = "java"
    GROUP = "group"
    """All processes of the job at once."""


class Moment(StrEnum):
    """When the process is killed."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A function of the product, or of a library that it calls, and the moment."""

    name: str
    role: Role
    """The process that calls the function."""
    target: str
    """MODULE:FUNCTION or MODULE:CLASS.METHOD."""
    moment: Moment
    calls: int = 3
    """The process is killed at one of so many calls."""

    @property
    def module(self) -> str:
        """The module that is changed when it is imported."""
        return self.target.partition(":")[0]

    @property
    def path(self) -> str:
        """The function in that module."""
        return self.target.partition(":")[2]


def _around(name: str, role: Role, target: str, calls: int = 3) -> tuple[KillPoint, KillPoint]:
    return (
        KillPoint(name=f"before {name}", role=role, target=target, moment=Moment.BEFORE, calls=calls),
        KillPoint(name=f"after {name}", role=role, target=target, moment=Moment.AFTER, calls=calls),
    )


_JOURNAL = "connectors.store.journal_writer:JournalWriter"
_READER = "streaming.pipeline.source:JournalStreamReader"
_DELIVER = "streaming.pipeline.deliver:Deliver._deliver"
_LEDGER = "connectors.delivery.ledger:Ledger"
_PAGERDUTY = "pagerduty:EventsApiV2Client.send_event"
_SLACK = "slack_sdk:WebClient"

KILL_POINTS: tuple[KillPoint, ...] = (
    *_around("journal publication", Role.GATHERER, f"{_JOURNAL}.publish"),
    *_around("the cluster's progress", Role.GATHERER, f"{_JOURNAL}._save_progress"),
    *_around("journal retention", Role.GATHERER, f"{_JOURNAL}._delete_old", 1),
    *_around("planning", Role.PLANNER, f"{_READER}.latestOffset"),
    *_around("reading the planned rows", Role.PLANNER, f"{_READER}.partitions"),
    *_around("committing the journal position", Role.PLANNER, f"{_READER}.commit"),
    *_around("decoding a row", Role.WORKER, "streaming.replay.decoded_row:decode_observation"),
    *_around("storing the state", Role.WORKER, "streaming.pipeline.schema:pack_states"),
    *_around("delivering a batch", Role.DRIVER, _DELIVER),
    *_around("recording alerts", Role.DRIVER, f"{_LEDGER}.record"),
    *_around("ledger write", Role.DRIVER, "connectors.store.alert_store:AlertStore._write"),
    *_around("ledger commit", Role.DRIVER, "sqlalchemy.engine:Connection._commit_impl"),
    *_around("recording a delivery", Role.DRIVER, f"{_LEDGER}.mark_delivered", 2),
    *_around("jsonl write", Role.DRIVER, "connectors.sinks.jsonl:append", 2),
    *_around("call of PagerDuty", Role.DRIVER, _PAGERDUTY, 2),
    *_around("Slack post", Role.DRIVER, f"{_SLACK}.chat_postMessage", 2),
    *_around("Slack edit", Role.DRIVER, f"{_SLACK}.chat_update", 2),
    *_around("storing what a sink remembers", Role.DRIVER, "connectors.sinks.sink_config:SinkState.put", 2),
)
"""After a call of a service: the service has accepted the notification, and the ledger does not have it."""
