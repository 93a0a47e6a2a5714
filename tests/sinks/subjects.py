"""Every kind of sink that uses HTTP, for the tests of the contract. A new kind is one more entry here."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from connectors.secret import Secret
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import (
    Alertmanager,
    Apprise,
    Pagerduty,
    SinkConfig,
    SinkSpec,
    SlackBot,
    SlackWebhook,
    Webhook,
)
from connectors.sinks.sink_factory import open_sink
from tests.sinks import pagerduty_double, slack_double
from tests.sinks.server import HttpReply, ReceivedRequest

SECRET = "s3cr3t-d0-n0t-sh0w-0123456789abc"


def accept_all(request: ReceivedRequest) -> HttpReply:
    return HttpReply()


def alertmanager_reply(request: ReceivedRequest) -> HttpReply:
    """By `postableAlerts` of its OpenAPI document; test_alertmanager uses a real one."""
    assert request.path == f"/{SECRET}/api/v2/alerts"
    for alert in json.loads(request.body):
        assert alert.keys() <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
        texts = {**alert["labels"], **alert["annotations"]}
        assert all(isinstance(text, str) and text for text in texts.values())
        assert alert["labels"]["alertname"]
        assert datetime.fromisoformat(alert["startsAt"]) <= datetime.fromisoformat(alert["endsAt"])
    return HttpReply()


@dataclass(frozen=True, kw_only=True)
class SinkKind:
    """One kind of sink."""

    kind: str
    config: Callable[[str, Path], SinkConfig]
    """Returns its config for the server's URL and CA file; SECRET is in every field that can be secret."""
    reply: Callable[[ReceivedRequest], HttpReply] = accept_all
    """Returns the reply of the real service; asserts that the service would accept the request."""
    permanent: frozenset[int] = field(default_factory=lambda: frozenset({400, 413, 422}))
    """The statuses with which the service rejects a document permanently."""

    respects_retry_after: bool = True

    def open(self, url: str, ca_file: Path, state_folder: Path) -> Sink:
        return open_sink(SinkSpec(config=self.config(url, ca_file)), state_folder=state_folder)

    def __str__(self) -> str:
        return self.kind


SINK_KINDS = [
    SinkKind(
        kind="webhook",
        config=lambda url, ca_file: Webhook(
            url=Secret(text=url.replace("://", f"://eva:{SECRET}@") + f"/{SECRET}?key={SECRET}"),
            headers=(("X-Key", Secret(text=SECRET)),),
            signing_key=Secret(text=SECRET),
            ca_file=ca_file,
        ),
    ),
    SinkKind(
        kind="alertmanager",
        config=lambda url, ca_file: Alertmanager(
            url=Secret(text=f"{url}/{SECRET}/"), token=Secret(text=SECRET), ca_file=ca_file
        ),
        reply=alertmanager_reply,
    ),
    SinkKind(
        kind="slack",
        config=lambda url, ca_file: SlackBot(
            channel="#kafka", token=Secret(text=SECRET), api_url=f"{url}/api/", ca_file=ca_file
        ),
        reply=slack_double.SlackDouble(token=SECRET).reply,
    ),
    SinkKind(
        kind="slack webhook",
        config=lambda url, ca_file: SlackWebhook(url=Secret(text=f"{url}/services/T0/B0/{SECRET}"), ca_file=ca_file),
        reply=slack_double.webhook,
    ),
    SinkKind(
        kind="pagerduty",
        config=lambda url, ca_file: Pagerduty(routing_key=Secret(text=SECRET), api_url=url, ca_file=ca_file),
        reply=pagerduty_double.PagerdutyDouble().reply,
    ),
    SinkKind(
        kind="apprise",
        config=lambda url, ca_file: Apprise(
            url=Secret(text=url.replace("https://", f"jsons://eva:{SECRET}@") + f"/{SECRET}")
        ),
        permanent=frozenset(),
        respects_retry_after=False,
    ),
]
