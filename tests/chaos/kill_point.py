"""The named points at which a process of the job is killed: a function, and the moment relative to its call."""

from collections.abc import Iterator
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """A function of the product, or of a library that it calls, and the moment."""

    moment: str
    """`before` or `after` the call."""
    step: str
    role: Role
    """The process that calls the function."""
    module: str
    """It is changed when it is imported."""
    function: str
    """FUNCTION or CLASS.METHOD in the module."""
    calls: int = 3
    """The process is killed at one of so many calls."""

    @property
    def name(self) -> str:
        """The step with the moment."""
        return f"{self.moment} {self.step}"


def _around(step: str, role: Role, target: str, calls: int = 3) -> Iterator[KillPoint]:
    module, _, function = target.partition(":")
    for moment in ("before", "after"):
        yield KillPoint(moment=moment, step=step, role=role, module=module, function=function, calls=calls)


_JOURNAL = "connectors.store.journal_writer:JournalWriter"
_READER = "streaming.pipeline.source:JournalStreamReader"
_DELIVER = "streaming.pipeline.deliver:Deliver.__call__"
_LEDGER = "connectors.delivery.ledger:Ledger"
_PAGERDUTY = "connectors.sinks.pagerduty.send:PagerdutySink._enqueue"
_SLACK = "connectors.sinks.slack.send:SlackApi"

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
    *_around("Slack post", Role.DRIVER, f"{_SLACK}.post", 2),
    *_around("Slack edit", Role.DRIVER, f"{_SLACK}.update", 2),
    *_around("storing what a sink remembers", Role.DRIVER, "connectors.sinks.sink_config:SinkMemory.put", 2),
)
"""After a call of a service: the service has accepted the notification, and the ledger does not have it."""
