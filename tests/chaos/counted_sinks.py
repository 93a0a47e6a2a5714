"""The sinks of the evaluated job, and how many notifications each of them gets for a fault.

The webhook is a real HTTP server. PagerDuty and Slack are doubles that validate each call by the documented schema.
Alertmanager is Debian's, if it is there, with a receiver of its own.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rules.finding import Severity
from streaming.demo.notification_counter import NotificationCounter, notification_counter
from tests.chaos.sink_services import SinkServices, people_sinks, running_services
from tests.eventually import eventually
from tests.sinks.real_alertmanager import RealAlertmanager
from tests.sinks.server import HttpReply, ReceivedRequest, serving

_ROUTE = """
route: {{receiver: people, group_by: [cluster_id, incident], group_wait: 0s, group_interval: 1s}}
receivers: [{{name: people, webhook_configs: [{{url: "{url}/"}}]}}]
"""
Marks = tuple[int, int, int, int]
"""How many calls the webhook, Slack, PagerDuty and Alertmanager's receiver got."""


@dataclass(slots=True, kw_only=True)
class CountedSinks:
    """What all sinks got, oldest first."""

    services: SinkServices
    webhook: NotificationCounter
    receiver: list[Mapping[str, Any]] = field(default_factory=list)
    """What Alertmanager sent to its receiver."""
    entries: list[dict[str, Any]] = field(default_factory=list)
    """The sinks of the job's configuration."""

    @property
    def urls(self) -> Sequence[str]:
        """The URLs of all sinks."""
        services = [each.server.url for each in (self.services.pagerduty, self.services.slack)]
        return [*services, *(one["url"] for entry in self.entries for one in entry.values() if "url" in one)]

    def marks(self) -> Marks:
        """Returns how many calls each sink got so far."""
        slack, pagerduty = self.services.slack.accepted, self.services.pagerduty.accepted
        return len(self.webhook.documents), len(slack), len(pagerduty), len(self.receiver)

    def notifications(self, since: Marks) -> dict[str, int]:
        """Counts the documents of the webhook by kind."""
        kinds = self._kinds()[since[0] :]
        return {kind: kinds.count(kind) for kind in ("begin", "worse", "end", "other")}

    def _kinds(self) -> Sequence[str]:
        """Returns of each document of the webhook: begin, worse (an alert or a severity), end or other."""
        known: dict[str, tuple[int, frozenset[str]]] = {}
        kinds = []
        for document in [*self.webhook.documents]:
            severity = Severity(document["severity"]).rank
            rules = frozenset(each["rule"] for each in document["alerts"] if each["state"] == "firing")
            worst, before = known.get(document["incident"], (-1, frozenset()))
            known[document["incident"]] = max(worst, severity), rules | before
            worse = "worse" if severity > worst or rules - before else "other"
            kinds.append({"firing": "begin", "resolved": "end", "changed": worse}.get(document["reason"], "other"))
        return kinds

    def by_sink(self, since: Marks) -> dict[str, dict[str, int]]:
        """Counts what the other sinks got, by effect."""
        _, slack, pagerduty, receiver = since
        found = {
            "Slack": _counts([each.effect for each in self.services.slack.accepted[slack:]]),
            "PagerDuty": _counts([each.effect for each in self.services.pagerduty.accepted[pagerduty:]]),
        }
        if self.has_alertmanager:
            found["Alertmanager"] = _counts([each["status"] for each in self.receiver[receiver:]])
        return found

    def await_end(self, since: Marks) -> None:
        """Waits until Alertmanager has sent the end of the newest fault to its receiver."""
        ended = "end" in self._kinds()[since[0] :]
        if ended and self.has_alertmanager:
            eventually(lambda: bool(self.receiver) and self.receiver[-1]["status"] == "resolved", within_s=10)

    @property
    def has_alertmanager(self) -> bool:
        """Whether Alertmanager is installed here."""
        return any("alertmanager" in entry for entry in self.entries)

    @property
    def refused(self) -> Sequence[str]:
        """The calls that PagerDuty or Slack would not understand."""
        return [*self.services.slack.refused, *self.services.pagerduty.refused]


@contextmanager
def counted_sinks(folder: Path) -> Iterator[CountedSinks]:
    """Runs the servers of all sinks."""
    with ExitStack() as stack:
        services = stack.enter_context(running_services(folder / "ca"))
        sinks = CountedSinks(services=services, webhook=stack.enter_context(notification_counter()))
        receiver = stack.enter_context(serving())
        receiver.behave = lambda request: _store(request, sinks.receiver)
        sinks.entries += [{"webhook": {"url": sinks.webhook.url, "name": "webhook"}}, *people_sinks()]
        if shutil.which("prometheus-alertmanager"):
            config = _ROUTE.format(url=receiver.url)
            manager = stack.enter_context(RealAlertmanager(folder / "alertmanager", config=config))
            sinks.entries.append({"alertmanager": {"url": manager.url, "name": "alertmanager"}})
        yield sinks


def _store(request: ReceivedRequest, into: list[Mapping[str, Any]]) -> HttpReply:
    into.append(json.loads(request.body))
    return HttpReply()


def _counts(effects: Sequence[str]) -> dict[str, int]:
    return {effect: effects.count(effect) for effect in sorted(set(effects))}
