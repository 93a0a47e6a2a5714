"""The services of a campaign: doubles of PagerDuty and Slack that survive the kills, and are up, slow or down."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.kill_campaign import job_processes
from tests.kill_campaign.instrumentation import SETTINGS, Settings
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import Behaviour, ConnectionReset, HttpDouble, HttpReply, NoReply, ReceivedRequest, serving
from tests.sinks.slack_double import SlackDouble
from tests.unit.connectors.kafka.certificates import authority

PAGERDUTY, SLACK = "pagerduty", "slack"
"""The names of the sinks."""
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
class SinkService:
    """One service."""

    server: HttpDouble
    apply: Callable[[ReceivedRequest], tuple[HttpReply, str, str]]
    """Returns the reply, the effect and its subject; the effect is empty for a refused request."""
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
            reply, effect, subject = self.apply(request)
            if effect:
                self.accepted.append(AcceptedRequest(t=time.monotonic(), effect=effect, subject=subject))
            else:
                self.refused.append(reply.body.decode())
        if self.availability is Availability.SLOW:
            time.sleep(SLOW_S)
        return reply


@dataclass(frozen=True, kw_only=True)
class SinkServices:
    """Both services and their doubles."""

    ca_file: str
    pagerduty: SinkService
    pagerduty_double: PagerdutyDouble
    slack: SinkService
    slack_double: SlackDouble

    def named(self, sink: str) -> SinkService:
        """Returns the service of a sink."""
        return {PAGERDUTY: self.pagerduty, SLACK: self.slack}[sink]

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
    pagerduty, slack = PagerdutyDouble(), SlackDouble()
    with serving(context) as pagerduty_server, serving(context) as slack_server:
        yield SinkServices(
            ca_file=trusted.file,
            pagerduty=SinkService(server=pagerduty_server, apply=lambda request: _pagerduty(pagerduty, request)),
            pagerduty_double=pagerduty,
            slack=SinkService(server=slack_server, apply=lambda request: _slack(slack, request)),
            slack_double=slack,
        )


def _pagerduty(double: PagerdutyDouble, request: ReceivedRequest) -> tuple[HttpReply, str, str]:
    event = json.loads(request.body)
    opened, dropped, invalid = len(double.alerts), len(double.dropped), len(double.invalid)
    reply = double.reply(request)
    if len(double.invalid) > invalid:
        return reply, "", ""
    if len(double.dropped) > dropped:
        effect = "dropped"
    elif event["event_action"] == "resolve":
        effect = "resolved"
    else:
        effect = "opened" if len(double.alerts) > opened else "repeated"
    return reply, effect, event["dedup_key"]


def _slack(double: SlackDouble, request: ReceivedRequest) -> tuple[HttpReply, str, str]:
    reply = double.reply(request)
    answer = json.loads(reply.body)
    if not answer["ok"]:
        return reply, "", ""
    body = json.loads(request.body)
    if request.path.endswith("chat.update"):
        return reply, "edit", body["ts"]
    thread = body.get("thread_ts")
    return reply, "message" if thread is None else "reply", thread or answer["ts"]
