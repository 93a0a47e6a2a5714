"""The PagerDuty sink: one PagerDuty alert for each incident, by the Events API v2.

The `dedup_key` of an incident is the same in every job that monitors the cluster. An event that is sent again is
applied to the open alert: it does not page again, also not after a person acknowledged it. If a person closed the alert
while the incident is still open, the event opens a new one
(https://developer.pagerduty.com/docs/events-api-v2-overview). An incident that is
acknowledged in kraftwatch is acknowledged there. PagerDuty cannot take that back: an incident that is no longer
acknowledged, because that has ended or another alert has joined, gets a new key, so that it pages again. With a token
of the REST API, who acknowledges in PagerDuty is read back (`poll`).

An incident that escalates has a new `dedup_key`: a new alert pages again, and then the one before it is resolved. Both
are repeated until both are accepted, which changes nothing in PagerDuty.

An incident that fired and resolved before PagerDuty could be notified is triggered as `info` and resolved immediately.
A resolve alone would be dropped without a trace, and the incident belongs in the history; as `info` it need not page
anybody for something that is over. The sink stores that it was triggered before it resolves it: a trigger that is sent
again after the resolve, because the job was killed or a response was lost, would open a second alert.
"""

import re
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from connectors.errors import UsageError
from connectors.settings.secret import Secret, excerpt
from connectors.sinks.http_request import HttpResponse, outcome_of_response, post
from connectors.sinks.notification_text import delay_text, other_alert_lines
from connectors.sinks.pagerduty.poll import AcknowledgementPoll
from connectors.sinks.sink import (
    Delivered,
    DeliveryOptions,
    KnownState,
    OpenIncident,
    Outcome,
    Responses,
    Retry,
    SerialSink,
)
from connectors.sinks.sink_config import TIMEOUT_S, MessageLinks, SinkMemory
from connectors.store.store_place import StorePlace
from connectors.store.stored_json import json_line
from rules.alert import AlertState
from rules.evidence_text import plain_evidence
from rules.finding import Plain
from rules.formatting import iso, plural, shortened, visible
from rules.model.identifiers import Millis
from rules.notifications.incident import deduplication_key
from rules.notifications.notification import Notification

_ROUTING_KEY = re.compile(r"[A-Za-z0-9_-]{32}")
_MAX_SUMMARY = 1_024
_MAX_FIELD = 255
_MAX_DETAIL = 20_000
"""Characters of one part of the details: an event may have 512 KB."""
_MAX_OTHER_ALERTS = 50
_MAX_CLUSTERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PagerdutyService:
    """The service, and what is sent to it."""

    routing_key: Secret
    api_url: str
    """Of the Events API."""
    rest_url: str
    api_token: Secret | None
    """Of the REST API."""
    change_events: bool
    ca_file: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PagerdutyAlertRecord:
    """What PagerDuty has of an incident; stored once it differs from the first alert, which nobody has acknowledged."""

    key: str
    """The `dedup_key` of the newest alert."""
    acknowledged: bool = False
    """It was acknowledged there for this job."""
    reopened: int = 0
    """How often it got a new key because it was no longer acknowledged."""
    superseded: tuple[str, ...] = ()
    """Former keys, whose alerts may still be open."""


_ALERT = TypeAdapter(PagerdutyAlertRecord)


class PagerdutySink(SerialSink[dict[str, Any]]):
    """Triggers or resolves the incident of each notification, by one integration of one service."""

    def __init__(
        self, options: DeliveryOptions, links: MessageLinks, service: PagerdutyService, store: StorePlace
    ) -> None:
        """Reads the routing key once, so that a missing one is reported at start-up."""
        super().__init__(replace(options, shows_acknowledgements=True))
        self._service, self._key, self._links = service, service.routing_key, links
        lost = "PagerDuty may get a resolved incident again"
        self._reported = SinkMemory(
            store,
            f"{self.options.name} changes",
            TypeAdapter(dict[str, str]),
            if_lost="a change may be reported again",
            keep=_MAX_CLUSTERS,
        )
        self._triggered = SinkMemory(store, self.options.name, TypeAdapter(str), if_lost=lost)
        self._alerts = SinkMemory(
            store,
            f"{self.options.name} alerts",
            _ALERT,
            if_lost="PagerDuty may page again for an acknowledged incident",
        )
        problem = key_problem(self._key.read())
        if problem is not None:
            raise UsageError(f"routing_key{self._key.place} {problem}")
        self._lock = threading.Lock()
        """Of what is kept of alerts: the poll is another thread."""
        self._suspected: set[str] = set()
        """Incidents that were acknowledged, and that the newest poll has not found acknowledged."""
        self._poll: AcknowledgementPoll | None = None
        if service.api_token is not None:
            self._poll = AcknowledgementPoll(
                self.options.name,
                api_url=service.rest_url,
                token=service.api_token,
                get_options=lambda: {"ca_file": service.ca_file},
                key_of=self._key_of,
                believed=self._believed,
                acknowledge=self._acknowledge_again,
            )

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`: who acknowledges there is read back."""
        if self._poll is not None:
            self._poll.follow(responses)

    def _key_of(self, incident: OpenIncident) -> str:
        with self._lock:
            found = self._alerts.get(incident.id)
        return deduplication_key(incident.id, incident.escalations) if found is None else found.key

    def _believed(self, incident: str, key: str, acknowledged: bool) -> bool:  # noqa: FBT001 - as the poll calls it
        """Returns whether a poll says what is true; notes that an acknowledgement there has ended.

        PagerDuty applies an event some time after it has accepted it: of what was acknowledged, two polls must find
        that it is not. PagerDuty then pages by itself, so the alert stays.
        """
        with self._lock:
            found = self._alerts.get(incident) or PagerdutyAlertRecord(key=key)
            if acknowledged and found.key == key:
                # Whoever did it: if an alert has joined that is not acknowledged, only another key pages.
                self._alerts.put(incident, replace(found, acknowledged=True))
            if acknowledged or not found.acknowledged or found.key != key:
                self._suspected.discard(incident)
                return True
            if incident not in self._suspected:
                self._suspected.add(incident)
                return False
            self._suspected.discard(incident)
            self._alerts.put(incident, replace(found, acknowledged=False))
            return True

    def _acknowledge_again(self, incident: str, key: str) -> None:
        """PagerDuty ends an acknowledgement by a time limit of the service, also one that goes on here."""
        outcome = self._enqueue({"event_action": "acknowledge", "dedup_key": key}, time.monotonic() + TIMEOUT_S)
        with self._lock:
            found = self._alerts.get(incident) or PagerdutyAlertRecord(key=key)
            if isinstance(outcome, Delivered) and found.key == key:
                self._alerts.put(incident, replace(found, acknowledged=True))

    def _document(self, notification: Notification, sent_at_ms: Millis) -> dict[str, Any]:
        return event(notification, self._links)

    def _send_one(
        self, notification: Notification, document: dict[str, Any], sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        until = time.monotonic() + left_s
        incident, resolved = notification.incident, notification.state is AlertState.RESOLVED
        now = self._noted(notification)
        key = now.key
        missed = resolved and not notification.previously_notified and self._triggered.get(incident) is None
        if missed or not resolved:
            outcome = self._enqueue({"event_action": "trigger", "dedup_key": key, **document}, until)
            if not isinstance(outcome, Delivered):
                return outcome
        if missed:
            self._triggered.put(incident, key)
        escalated = range(notification.escalations_before, notification.escalations)
        superseded = dict.fromkeys((*(deduplication_key(incident, each) for each in escalated), *now.superseded))
        acts = [("acknowledge", key)] if now.acknowledged else []
        acts += [("resolve", each) for each in (*superseded, *([key] if resolved else []))]
        for act, of_key in acts:
            outcome = self._enqueue({"event_action": act, "dedup_key": of_key}, until)
            if not isinstance(outcome, Delivered):
                return outcome
        if now.superseded:
            with self._lock:
                self._alerts.put(incident, replace(now, superseded=()))
        return Delivered()

    def report(self, states: Sequence[KnownState], *, deadline_s: float) -> str | None:
        """Sends a change event for each fact that differs from the one that was sent before."""
        until = time.monotonic() + deadline_s
        for state in states if self._service.change_events else ():
            known = self._reported.get(state.of) or {}
            for name, now in state.facts.items():
                before = known.get(name)
                if before == now:
                    continue
                if before is not None and (problem := self._send_change(state, name, before, until)):
                    return problem
                known = {**known, name: now}
                self._reported.put(state.of, known)
        return None

    def _send_change(self, state: KnownState, name: str, before: str, until: float) -> str | None:
        key = self._key.read()
        response = post(
            f"{self._service.api_url}/v2/change/enqueue",
            json_line({"routing_key": key, **change_event(state, name, before, self._links)}).encode(),
            seconds=until - time.monotonic(),
            headers={"Accept": "application/json"},
            ca_file=self._service.ca_file,
        )

        def accepted(one: HttpResponse) -> bool:
            match one.json if one.status == 202 else None:
                case {"status": "success"}:
                    return True
                case _:
                    return False

        outcome = outcome_of_response(response, "", [key], server="PagerDuty", accepted=accepted)
        return None if isinstance(outcome, Delivered) else outcome.reason

    def _noted(self, notification: Notification) -> PagerdutyAlertRecord:
        """Returns what PagerDuty must have, and stores it: after a crash no former key is forgotten."""
        with self._lock:
            before = self._alerts.get(notification.incident)
            now = _alert_of(notification, before)
            if before is not None or now != PagerdutyAlertRecord(key=now.key):
                self._alerts.put(notification.incident, now)
        return now

    def _enqueue(self, content: dict[str, Any], until: float) -> Outcome:
        """Sends one event, and returns whether PagerDuty has accepted it."""
        key = self._key.read()
        response = post(
            f"{self._service.api_url}/v2/enqueue",
            json_line({"routing_key": key, **content}).encode(),
            seconds=until - time.monotonic(),
            headers={"Accept": "application/json"},
            ca_file=self._service.ca_file,
        )
        return _outcome_of_response(response, content["dedup_key"], key)


def _alert_of(notification: Notification, before: PagerdutyAlertRecord | None) -> PagerdutyAlertRecord:
    """Returns what PagerDuty must have: the same for the same notification, also if it is sent again."""
    base = deduplication_key(notification.incident, notification.escalations)
    if before is None:
        return PagerdutyAlertRecord(key=base, acknowledged=notification.acknowledged)
    ends = before.acknowledged and not notification.acknowledged and notification.state is AlertState.FIRING
    escalates = notification.escalations > notification.escalations_before
    reopened = before.reopened + (ends and not escalates)
    key = f"{base}-r{reopened}" if reopened else base
    superseded = before.superseded if before.key == key else (*before.superseded, before.key)
    return PagerdutyAlertRecord(
        key=key, acknowledged=notification.acknowledged, reopened=reopened, superseded=superseded
    )


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
    return {
        "payload": payload,
        "links": [{"href": url, "text": text} for url, text in links.of(root, "What it means and what to do")],
        "client": "kraftwatch",
        **({} if page is None else {"client_url": page}),
    }


def change_event(state: KnownState, name: str, before: str, links: MessageLinks) -> dict[str, Any]:
    """Returns a change event without its key (https://developer.pagerduty.com/docs/send-change-event)."""
    now, page = state.facts[name], links.cluster(state.of)
    removed, added = ({*one.split("; ")} - {*other.split("; ")} for one, other in ((before, now), (now, before)))
    what = f"{name} changed from {before} to {now}"
    if "; " in before + now:
        lists = (("added", added), ("removed", removed))
        what = f"{name} changed: " + "; ".join(f"{verb} {', '.join(sorted(each))}" for verb, each in lists if each)
    return {
        "payload": {
            "summary": _truncated(f"{state.of}: {what}", _MAX_SUMMARY),
            "source": _truncated(state.of, _MAX_FIELD),
            "timestamp": iso(state.at_ms),
            "custom_details": {"before": _lines([before]), "now": _lines([now])},
        },
        "links": [] if page is None else [{"href": page, "text": "Cluster status"}],
    }


def _details(notification: Notification) -> dict[str, Plain]:
    root = notification.root
    others = other_alert_lines(notification.alerts[1:], root.cluster, _MAX_OTHER_ALERTS)
    return {
        "what to do": _lines(root.remedy),
        "evidence": _lines(plain_evidence(root.evidence)),
        "also in this incident": _lines(others) or "no other alert",
        "metadata offset": root.offset,
        "cluster id": _truncated(root.cluster_id, _MAX_FIELD),
    }


def _truncated(text: str, limit: int) -> str:
    return shortened(visible(text), limit)


def _lines(lines: Iterable[str]) -> str:
    return shortened("\n".join(map(visible, lines)), _MAX_DETAIL)


def key_problem(key: str) -> str | None:
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


def _outcome_of_response(response: HttpResponse | Retry, dedup_key: str, key: str) -> Outcome:
    def accepted(one: HttpResponse) -> bool:
        """Returns whether PagerDuty has accepted this event."""
        match one.json if one.status == 202 else None:
            case {"status": "success", "dedup_key": str(found)}:
                return found == dedup_key
            case _:
                return False

    outcome = outcome_of_response(response, "", [key], server="PagerDuty", accepted=accepted)
    if isinstance(response, HttpResponse) and response.status == 400 and "routing" in response.text.lower():
        return Retry(reason=f"PagerDuty does not know the routing key ({excerpt(response.text, key)})")
    return outcome
