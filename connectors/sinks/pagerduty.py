"""The PagerDuty sink: one PagerDuty alert for each incident, by the Events API v2.

The `dedup_key` of an incident is the same in every job that monitors the cluster. An event that is sent again is
applied to the open alert: it does not page again, also not after a person acknowledged it. If a person closed the alert
while the incident is still open, the event opens a new one
(https://developer.pagerduty.com/docs/events-api-v2-overview). The sink acknowledges nothing: people do.

An incident that escalates has a new `dedup_key`: a new alert pages again, and then the one before it is resolved. Both
are repeated until both are accepted, which changes nothing in PagerDuty.

An incident that fired and resolved before PagerDuty could be notified is triggered as `info` and resolved immediately.
A resolve alone would be dropped without a trace, and the incident belongs in the history; as `info` it need not page
anybody for something that is over. The sink stores that it was triggered before it resolves it: a trigger that is sent
again after the resolve, because the job was killed or a response was lost, would open a second alert.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import SecretStr, TypeAdapter, model_validator

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.settings import placed_error
from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import delay_text, other_alert_lines, plain_evidence, shortened, visible
from connectors.sinks.http_request import HttpResponse, excerpt, outcome_of_response, post
from connectors.sinks.sink import Delivered, DeliveryOptions, Outcome, Retry, SerialSink
from connectors.sinks.sink_config import MessageLinks, PeopleSection, SinkServer, SinkState, url_server
from connectors.store.store_place import StorePlace
from rules.alert import AlertState
from rules.finding import Plain
from rules.formatting import plural
from rules.model.identifiers import Millis
from rules.notifications.incident import deduplication_key
from rules.notifications.notification import Notification

_ROUTING_KEY = re.compile(r"[A-Za-z0-9_-]{32}")
_MAX_SUMMARY = 1_024
_MAX_FIELD = 255
_MAX_DETAIL = 20_000
"""Characters of one part of the details: an event may have 512 KB."""
_MAX_OTHER_ALERTS = 50


class PagerdutySection(PeopleSection):
    """PagerDuty: the integration "Events API v2" of a service."""

    form = "pagerduty:ROUTING-KEY"
    text_key = "routing_key"
    test_open_s = 30.0
    expected = (
        "PagerDuty pages for the service of this key: an alert of severity {severity}, open for "
        "{section.test_open_s:.0f} s and then resolved"
    )
    servers_of_regions: ClassVar[Mapping[str, str]] = {
        "us": "https://events.pagerduty.com",
        "eu": "https://events.eu.pagerduty.com",
    }
    ca_file: ClassVar[Path | None] = None

    routing_key: SecretStr | None = None
    """The integration key, 32 characters."""
    routing_key_file: Path | None = None
    region: Literal["us", "eu"] = "us"
    """The account's region: `eu` if its address ends in eu.pagerduty.com."""

    @model_validator(mode="after")
    def _whole(self) -> "PagerdutySection":
        self.required_secret("routing_key")
        problem = None if self.routing_key is None else _key_problem(self.routing_key.get_secret_value())
        if problem is not None:
            raise placed_error(problem, "routing_key")
        return self

    @property
    def api_url(self) -> str:
        """The Events API of the account's region."""
        return self.servers_of_regions[self.region]

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return "pagerduty"

    def open(self, options: DeliveryOptions, links: MessageLinks, store: StorePlace) -> "PagerdutySink":
        """Opens the sink."""
        return PagerdutySink(self, options=options, links=links, store=store)

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the Events API."""
        return [url_server(Secret(text=self.api_url), self.ca_file)]


class PagerdutySink(SerialSink[dict[str, Any]]):
    """Triggers or resolves the incident of each notification, by one integration of one service."""

    def __init__(
        self, section: PagerdutySection, *, options: DeliveryOptions, links: MessageLinks, store: StorePlace
    ) -> None:
        """Reads the routing key once, so that a missing one is reported at start-up."""
        super().__init__(options)
        self._section, self._key = section, section.required_secret("routing_key")
        self._links = links
        self._triggered = SinkState(
            store, options.name, TypeAdapter(str), if_lost="PagerDuty may get a resolved incident again"
        )
        problem = _key_problem(self._key.read())
        if problem is not None:
            raise UsageError(f"routing_key{self._key.place} {problem}")

    def _document(self, notification: Notification, sent_at_ms: Millis) -> dict[str, Any]:
        return event(notification, self._links)

    def _send_one(
        self, notification: Notification, document: dict[str, Any], sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        until, incident = time.monotonic() + left_s, notification.incident
        key, resolved = deduplication_key(incident, notification.escalations), notification.state is AlertState.RESOLVED
        missed = resolved and not notification.previously_notified and self._triggered.get(incident) is None
        ended = [
            deduplication_key(incident, superseded)
            for superseded in range(notification.escalations_before, notification.escalations)
        ]
        outcome: Outcome = Delivered()
        if missed or not resolved:
            outcome = self._send_event({"event_action": "trigger", "dedup_key": key, **document}, until)
        if missed and isinstance(outcome, Delivered):
            self._triggered.put(incident, key)
        for one in [*ended, key] if resolved else ended:
            if isinstance(outcome, Delivered):
                outcome = self._send_event({"event_action": "resolve", "dedup_key": one}, until)
        return outcome

    def _send_event(self, content: Mapping[str, Any], until: float) -> Outcome:
        key, url = self._key.read(), f"{self._section.api_url}/v2/enqueue"
        body = json.dumps({"routing_key": key, **content}).encode()
        left_s = max(0.0, until - time.monotonic())
        response = post(url, body, seconds=left_s, ca_file=self._section.ca_file)
        outcome = outcome_of_response(response, url, [key], server="PagerDuty")
        if isinstance(response, HttpResponse) and response.status == 400 and "routing" in response.text.lower():
            return Retry(reason=f"PagerDuty does not know the routing key ({excerpt(response.text, key)})")
        return outcome


def event(notification: Notification, links: MessageLinks) -> dict[str, Any]:
    """Returns the content of a trigger without its key, in PagerDuty's common event format."""
    root = notification.root
    resolved = notification.state is AlertState.RESOLVED
    delay = delay_text(notification, "PagerDuty")
    suffix = "" if delay is None else f" {delay[0].upper()}{delay[1:]}."
    payload = {
        "summary": _truncated(f"{root.cluster}: {notification.summary}{suffix}", _MAX_SUMMARY),
        "source": _truncated(root.cluster, _MAX_FIELD),
        "severity": "info" if resolved else notification.severity.value,
        "timestamp": iso(notification.started_at_ms),
        "component": _truncated(root.subject, _MAX_FIELD),
        "group": _truncated(root.cluster, _MAX_FIELD),
        "class": root.rule,
        "custom_details": _details(notification),
    }
    page = links.cluster(root.cluster)
    hrefs = ((links.rule(root.rule), "What it means and what to do"), (page, "Cluster status"))
    return {
        "payload": payload,
        "links": [{"href": href, "text": text} for href, text in hrefs if href is not None],
        "client": "kraftwatch",
        **({} if page is None else {"client_url": page}),
    }


def _details(notification: Notification) -> dict[str, Plain]:
    root = notification.root
    others = other_alert_lines(notification.alerts[1:], root.cluster, _MAX_OTHER_ALERTS)
    return {
        "what to do": _truncated("\n".join(root.remedy), _MAX_DETAIL, keep="\n"),
        "evidence": _truncated("\n".join(plain_evidence(root.evidence)), _MAX_DETAIL, keep="\n"),
        "also in this incident": _truncated("\n".join(others), _MAX_DETAIL, keep="\n") or "no other alert",
        "metadata offset": root.offset,
        "cluster id": _truncated(root.cluster_id, _MAX_FIELD),
    }


def _truncated(text: str, limit: int, keep: str = "") -> str:
    return shortened(visible(text, keep=keep), limit)


def _key_problem(key: str) -> str | None:
    """Returns what is wrong with the form of an integration key, without the key; None if nothing is.

    Source: https://developer.pagerduty.com/docs/events-api-v2-overview.
    """
    if _ROUTING_KEY.fullmatch(key):
        return None
    wrong = f"has {plural(len(key), 'character')}" if len(key) != 32 else "has other characters than letters and digits"
    return (
        f"{wrong}, but an integration key has 32 letters and digits: copy it from the integration "
        '"Events API v2" of the service'
    )
