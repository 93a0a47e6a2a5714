"""The services of a run: doubles of PagerDuty and Slack that survive the kills, and are up, slow or down."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Generic, TypeVar

from tests.chaos import job_processes
from tests.chaos.instrumentation import SETTINGS, Settings
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import Behaviour, ConnectionReset, HttpDouble, HttpReply, NoReply, ReceivedRequest, serving
from tests.sinks.slack_double import SlackDouble
from tests.unit.connectors.kafka.certificates import authority

PAGERDUTY, SLACK = "pagerduty", "slack"
"""The names of the sinks."""
DoubleT = TypeVar("DoubleT", PagerdutyDouble, SlackDouble)
SLOW_S = 2.0
"""Longer than a batch waits for a sink, shorter than the deadline of a call."""


def people_sinks(**keys: Any) -> list[dict[str, Any]]:
    """Returns the sinks of a job's configuration for people, each with these further keys."""
    return [
        {"pagerduty": {"routing_key": "0123456789abcdef0123456789abcdef", "name": PAGERDUTY, **keys}},
        {"slack": {"token": "xoxb-0123456789", "channel": "#kafka", "name": SLACK, **keys}},
    ]


class Availability(StrEnum):
    """How a service responds."""

    UP = "up"
    SLOW = "slow"
    """It accepts a request at once and responds late."""
    DOWN = "down"
    """It accepts no request: it resets the connection or answers 503."""
    SILENT = "silent"
    """It accepts no request, and does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRequest:
    """A request that a service accepted, and its effect."""

    t: float
    """Monotonic seconds."""
    effect: str
    """PagerDuty: opened, repeated, resolved, dropped. Slack: message, reply, edit."""
    subject: str
    """PagerDuty: the dedup key. Slack: the time stamp of the message, or of the reply's message."""


@dataclass(kw_only=True)
class SinkService(Generic[DoubleT]):
    """One service."""

    server: HttpDouble
    double: DoubleT
    availability: Availability = Availability.UP
    accepted: list[AcceptedRequest] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Requests that the real service would not understand."""
    _attempts_while_down: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.server.behave = self._behave

    def _behave(self, request: ReceivedRequest) -> Behaviour:
        if self.availability is Availability.SILENT:
            return NoReply()
        with self._lock:
            if self.availability is Availability.DOWN:
                self._attempts_while_down += 1
                return ConnectionReset() if self._attempts_while_down % 2 else HttpReply(status=503)
            known = len(self.double.effects)
            reply = self.double.reply(request)
            new = self.double.effects[known:]
            self.accepted += [AcceptedRequest(t=time.monotonic(), effect=one, subject=of) for one, of in new]
            # PagerDuty accepts a change event too, which has no effect on an incident.
            self.refused += [] if new or reply.status == HTTPStatus.ACCEPTED else [reply.body.decode()]
        if self.availability is Availability.SLOW:
            time.sleep(SLOW_S)
        return reply


@dataclass(frozen=True, kw_only=True)
class SinkServices:
    """Both services."""

    ca_file: str
    pagerduty: SinkService[PagerdutyDouble]
    slack: SinkService[SlackDouble]

    def named(self, sink: str) -> SinkService[Any]:
        """Returns the service of a sink."""
        return self.pagerduty if sink == PAGERDUTY else self.slack

    def write_settings(self, folder: Path, **others: Any) -> Settings:
        """Writes the settings with which the job of this folder sends to these services; returns them."""
        settings = Settings(
            pagerduty_url=self.pagerduty.server.url,
            slack_url=f"{self.slack.server.url}/api/",
            ca_file=self.ca_file,
            **others,
        )
        (folder / SETTINGS).write_text(json.dumps(asdict(settings)), encoding="utf-8")
        return settings

    def instrument(self, folder: Path) -> dict[str, str]:
        """Returns the environment variables of a job of this folder that sends to these services."""
        self.write_settings(folder)
        return job_processes.environment(folder)


@contextmanager
def running_services(folder: Path) -> Iterator[SinkServices]:
    """Runs both services on loopback, with a certificate of an authority in this folder."""
    trusted = authority(folder)
    context = trusted.server(trusted.issue("server"))
    with serving(context) as pagerduty, serving(context) as slack:
        yield SinkServices(
            ca_file=trusted.file,
            pagerduty=SinkService(server=pagerduty, double=PagerdutyDouble()),
            slack=SinkService(server=slack, double=SlackDouble()),
        )
