"""Every kind of sink that speaks HTTP, as the contract's tests see it. A new kind is one more entry here."""

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
    Place,
    SlackBot,
    SlackWebhook,
    Wanted,
    Webhook,
)
from connectors.sinks.sink_factory import open_sink
from tests.sinks import pagerduty_double, slack_double
from tests.sinks.server import Answer, Request

SECRET = "s3cr3t-d0-n0t-sh0w-0123456789abc"


def fine(request: Request) -> Answer:
    return Answer()


def by_alertmanager(request: Request) -> Answer:
    """By `postableAlerts` of its OpenAPI document; one that is real judges in test_alertmanager."""
    assert request.path == f"/{SECRET}/api/v2/alerts"
    for alert in json.loads(request.body):
        assert alert.keys() <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
        texts = {**alert["labels"], **alert["annotations"]}
        assert all(isinstance(text, str) and text for text in texts.values())
        assert alert["labels"]["alertname"]
        assert datetime.fromisoformat(alert["startsAt"]) <= datetime.fromisoformat(alert["endsAt"])
    return Answer()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One kind of sink."""

    kind: str
    place: Callable[[str, Path], Place]
    """Where it is, given the server's URL and the file with its CA; SECRET is in it wherever a secret can be."""
    taken: Callable[[Request], Answer] = fine
    """What the real place answers when it takes what it is sent. It asserts that it would."""
    never_taken: frozenset[int] = field(default_factory=lambda: frozenset({400, 413, 422}))
    """The statuses by which the place refuses a document for good."""

    hears_retry_after: bool = True

    def open(self, url: str, ca_file: Path, memory: Path) -> Sink:
        return open_sink(Wanted(place=self.place(url, ca_file)), memory=memory)

    def __str__(self) -> str:
        return self.kind


SUBJECTS = [
    Subject(
        kind="webhook",
        place=lambda url, ca_file: Webhook(
            url=Secret(text=url.replace("://", f"://eva:{SECRET}@") + f"/{SECRET}?key={SECRET}"),
            headers=(("X-Key", Secret(text=SECRET)),),
            signing_key=Secret(text=SECRET),
            ca_file=ca_file,
        ),
    ),
    Subject(
        kind="alertmanager",
        place=lambda url, ca_file: Alertmanager(
            url=Secret(text=f"{url}/{SECRET}/"), token=Secret(text=SECRET), ca_file=ca_file
        ),
        taken=by_alertmanager,
    ),
    Subject(
        kind="slack",
        place=lambda url, ca_file: SlackBot(
            channel="#kafka", token=Secret(text=SECRET), api_url=f"{url}/api/", ca_file=ca_file
        ),
        taken=slack_double.Slack(token=SECRET).answer,
    ),
    Subject(
        kind="slack webhook",
        place=lambda url, ca_file: SlackWebhook(url=Secret(text=f"{url}/services/T0/B0/{SECRET}"), ca_file=ca_file),
        taken=slack_double.webhook,
    ),
    Subject(
        kind="pagerduty",
        place=lambda url, ca_file: Pagerduty(routing_key=Secret(text=SECRET), api_url=url, ca_file=ca_file),
        taken=pagerduty_double.Pagerduty().answer,
    ),
    Subject(
        kind="apprise",
        place=lambda url, ca_file: Apprise(
            url=Secret(text=url.replace("https://", f"jsons://eva:{SECRET}@") + f"/{SECRET}")
        ),
        never_taken=frozenset(),
        hears_retry_after=False,
    ),
]
