"""The PagerDuty sink: one alert an incident, by the Events API v2.

The incident is the `dedup_key`. So whatever is sent again is applied to the alert that is open: it pages nobody
anew, least of all while somebody has acknowledged it, and it opens a new one where somebody closed by hand what
still stands (https://developer.pagerduty.com/docs/events-api-v2-overview). Nothing here acknowledges: that is people's.

What came and went while PagerDuty could not be told is triggered as `info` and resolved at once. A resolve alone
would be dropped without a trace, and what nobody heard of belongs in the history that is read in the morning; as
`info` it need not wake anybody for what is over.
"""

import json
from collections.abc import Sequence
from typing import Any

from httpx2 import Response
from pagerduty import EventsApiV2Client
from pagerduty.errors import Error

from connectors.errors import UsageError
from connectors.sinks.alert_json import iso, sayable
from connectors.sinks.evidence_format import beside, visible
from connectors.sinks.http.deadline import Cutoff
from connectors.sinks.http.response_outcome import TOO_LATE, excerpt, failure, outcome
from connectors.sinks.links import Links
from connectors.sinks.sequential_send import in_turn
from connectors.sinks.sink import Delivered, Outcome, Retry, Terms
from connectors.sinks.sink_config import Pagerduty
from rules.alert import AlertState
from rules.finding import Plain
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

_SUMMARY = 1_024
_SHORT = 255
_TEXT = 20_000
"""Characters of one part of the details: an event may have 512 KB."""
_OTHERS = 50


class PagerdutySink:
    """One integration of one service."""

    def __init__(self, place: Pagerduty, *, terms: Terms, links: Links) -> None:
        """Read the routing key once, so that one that is not there is told at the start.

        Raises:
            UsageError: it cannot be read.
        """
        self.terms = terms
        self._place = place
        self._links = links
        place.routing_key.read()

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Trigger or resolve each notice's incident."""
        return in_turn(notices, self._told, deadline_s=deadline_s)

    def _told(self, notice: Notice, left_s: float) -> Outcome:
        try:
            key = self._place.routing_key.read()
        except UsageError as problem:
            return Retry(reason=str(problem))
        with Cutoff(left_s) as cutoff:
            try:
                with _Client(key, self._place, cutoff, left_s) as client:
                    self._send(client, notice)
            except _Refused as refusal:
                return _meaning(refusal.response, key)
            except (Error, OSError) as problem:
                return failure(problem, cutoff)
            return TOO_LATE if cutoff.over else Delivered()

    def _send(self, client: "_Client", notice: Notice) -> None:
        over = notice.state is AlertState.RESOLVED
        if not over or not notice.known:
            client.send_event("trigger", dedup_key=notice.incident, **event(notice, self._links))
        if over:
            client.send_event("resolve", dedup_key=notice.incident)


def event(notice: Notice, links: Links) -> dict[str, Any]:
    """What a trigger says besides its key, in PagerDuty's common event format."""
    root = notice.root
    over = notice.state is AlertState.RESOLVED
    summary = f"{root.cluster}: {root.summary}{' It came and went while you could not be told.' if over else ''}"
    payload = {
        "summary": _cut(summary, _SUMMARY),
        "source": _cut(root.cluster, _SHORT),
        "severity": "info" if over else notice.severity.value,
        "timestamp": iso(notice.started_at_ms),
        "component": _cut(root.subject, _SHORT),
        "group": _cut(root.cluster, _SHORT),
        "class": root.rule,
        "custom_details": _details(notice),
    }
    page = links.cluster(root.cluster)
    hrefs = ((links.rule(root.rule), "What it means, and what to do"), (page, "The cluster now"))
    return {
        "payload": payload,
        "links": [{"href": href, "text": text} for href, text in hrefs if href is not None],
        "client": "kraftwatch",
        **({} if page is None else {"client_url": page}),
    }


def _details(notice: Notice) -> dict[str, Plain]:
    root = notice.root
    others = beside(notice.alerts[1:], root.cluster, _OTHERS)
    return {
        "what to do": _cut("\n".join(root.remedy), _TEXT, keep="\n"),
        "evidence": _bounded(sayable(root.evidence)),
        "with it": _cut("\n".join(others), _TEXT, keep="\n") or "nothing else",
        "metadata offset": root.offset,
        "cluster id": _cut(root.cluster_id, _SHORT),
    }


def _bounded(evidence: dict[str, Plain]) -> Plain:
    text = json.dumps(evidence)
    # As an object PagerDuty shows it as a table.
    return _shown(evidence) if len(text) <= _TEXT else _cut(text, _TEXT)


def _shown(value: Plain) -> Plain:
    match value:
        case str():
            return visible(value)
        case list():
            return [_shown(each) for each in value]
        case dict():
            return {visible(name): _shown(each) for name, each in value.items()}
        case _:
            return value


def _cut(text: str, limit: int, keep: str = "") -> str:
    shown = visible(text, keep=keep)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


class _Refused(Exception):
    """PagerDuty answered, and not with 202."""

    def __init__(self, response: Response) -> None:
        super().__init__(str(response.status_code))
        self.response = response


class _Client(EventsApiV2Client):
    """The SDK's client for one notice. The ledger tries again, in its own time: the client does not."""

    max_network_attempts = 0

    def __init__(self, key: str, place: Pagerduty, cutoff: Cutoff, seconds: float) -> None:
        super().__init__(key, base_url=place.api_url, verify=cutoff.context(place.ca_file))
        self.timeout = seconds  # type: ignore[assignment] # declared by its default, which is a whole number

    def postprocess(self, response: Response) -> None:
        """Before the SDK waits and tries again, which it does without end at 429."""
        if not response.is_success:
            raise _Refused(response)


def _meaning(response: Response, key: str) -> Outcome:
    said = excerpt(response.text, key)
    if response.status_code == 400 and "routing" in said.lower():
        return Retry(reason=f"PagerDuty does not know the routing key ({said})")
    return outcome(response.status_code, retry_after=response.headers.get("Retry-After"), said=said)
