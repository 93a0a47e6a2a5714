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
    TORN = "torn"
    """Inside the call, when half of the bytes of its first write are in the file."""
    FIRST = "first"
    """For a generator: before its first item."""
    LAST = "last"
    """For a generator: after its last item."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePoint:
    """Java is killed when it creates or renames a file in its checkpoint."""

    name: str
    folder: str
    """Relative to the checkpoint."""
    pattern: str
    """A regular expression for the file's name."""
    calls: int = 3


def _around(name: str, role: Role, target: str, calls: int = 3) -> tuple[KillPoint, KillPoint]:
    return (
        KillPoint(name=f"before {name}", role=role, target=target, moment=Moment.BEFORE, calls=calls),
        KillPoint(name=f"after {name}", role=role, target=target, moment=Moment.AFTER, calls=calls),
    )


_JOURNAL = "connectors.store.journal_writer:JournalWriter"
_READER = "streaming.pipeline.source:JournalStreamReader"
_STEP = "streaming.pipeline.step:Step.__call__"
_DELIVER = "streaming.pipeline.deliver:Deliver._deliver"
_LEDGER = "connectors.delivery.ledger:Ledger"
_PAGERDUTY = "connectors.sinks.pagerduty:PagerdutySink._send_event"
_SLACK = "connectors.sinks.slack:SlackSink._call"

KILL_POINTS: tuple[KillPoint, ...] = (
    *_around("journal publication", Role.GATHERER, f"{_JOURNAL}.publish"),
    *_around("the cluster's progress", Role.GATHERER, f"{_JOURNAL}._save_progress"),
    *_around("journal retention", Role.GATHERER, f"{_JOURNAL}._delete_old", 1),
    *_around("planning", Role.PLANNER, f"{_READER}.latestOffset"),
    *_around("reading the planned rows", Role.PLANNER, f"{_READER}.partitions"),
    *_around("committing the journal position", Role.PLANNER, f"{_READER}.commit"),
    KillPoint(name="before the step", role=Role.WORKER, target=_STEP, moment=Moment.FIRST),
    KillPoint(name="after the step", role=Role.WORKER, target=_STEP, moment=Moment.LAST),
    *_around("delivering a batch", Role.DRIVER, _DELIVER),
    *_around("recording alerts", Role.DRIVER, f"{_LEDGER}.record"),
    *_around("ledger write", Role.DRIVER, "connectors.store.alert_store:AlertStore._write"),
    *_around("ledger commit", Role.DRIVER, "sqlalchemy.engine:Connection._commit_impl"),
    *_around("recording a delivery", Role.DRIVER, f"{_LEDGER}.mark_delivered", 2),
    *_around("jsonl write", Role.DRIVER, "connectors.sinks.jsonl:append", 2),
    KillPoint(name="torn jsonl write", role=Role.DRIVER, target="connectors.sinks.jsonl:append", moment=Moment.TORN),
    *_around("call of PagerDuty", Role.DRIVER, _PAGERDUTY, 2),
    *_around("call of Slack", Role.DRIVER, _SLACK, 4),
    *_around("storing what a sink remembers", Role.DRIVER, "connectors.sinks.sink_config:SinkState.put", 2),
)
"""After a call of a service: the service has accepted the notification, and the ledger does not have it."""

FILE_POINTS: tuple[FilePoint, ...] = (
    FilePoint(name="before the offset log", folder="spark/offsets", pattern=r"\..*\.tmp"),
    FilePoint(name="after the offset log", folder="spark/offsets", pattern=r"[0-9]+"),
    FilePoint(name="before the state commit", folder="spark/state/0/0", pattern=r"\..*\.tmp"),
    FilePoint(name="after the state commit", folder="spark/state/0/0", pattern=r"[0-9]+.*\.(changelog|zip)"),
    FilePoint(name="before the commit log", folder="spark/commits", pattern=r"\..*\.tmp"),
    FilePoint(name="after the commit log", folder="spark/commits", pattern=r"[0-9]+"),
)
