"""The Alertmanager sink: posts alerts by the API that Prometheus uses, `POST /api/v2/alerts`.

Firing alerts are re-sent every `REPEAT_S`: Alertmanager considers an alert resolved at its `endsAt`, `LASTS_S` after
the last notification, and a restarted Alertmanager has no alerts. Grouping, silences and routing are done there. Each
member of an Alertmanager cluster must be notified: each is a separate sink.

An alert starts there when it fired, not when its condition began (the annotation `since`): Alertmanager notifies of a
new group at once if its first alert is older than `group_wait`, and of the rest after `group_interval`.

Alertmanager drops alerts beyond a limit, and any HTTP server may accept the request: what is new and firing is
therefore read back once, by `GET /api/v2/alerts`, and what is not there was not delivered. Where the alerts cannot be
read, accepted is delivered.

Several members may take turns behind one URL, in order or at random: their lists differ, so none is read back, and one
that no longer gets an alert would resolve it. Each document is then posted so often that each member gets it. One of
them may be down, for which the balancer answers: it is delivered if one member accepts it.

Its clock may differ from this host's (`clock`). What people silence there is silenced for the other sinks too
(`silences`).
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from connectors.sinks.alert_json import claims_text, compact_json
from connectors.sinks.alertmanager.alert_list import (
    LABELS,
    Identity,
    identity,
    listed_alerts,
    process_of,
    stays_unreadable,
    unreadable,
)
from connectors.sinks.alertmanager.clock import ClockDifference
from connectors.sinks.alertmanager.server import AlertmanagerServer, Call
from connectors.sinks.alertmanager.silences import SilencesPoll
from connectors.sinks.http_request import HttpResponse, outcome_of_response
from connectors.sinks.sink import Delivered, DeliveryOptions, Outcome, Responses, Retry, SerialSink
from connectors.sinks.sink_config import TIMEOUT_S, MessageLinks
from rules.alert import Alert, AlertState
from rules.evidence_text import plain_evidence
from rules.finding import Plain, Severity
from rules.formatting import iso, late_text, shortened, visible
from rules.model.identifiers import Millis
from rules.notifications.incident import deduplication_key
from rules.notifications.notification import Notification

log = logging.getLogger(__name__)

REPEAT_S = 60.0
"""How often firing alerts are sent again."""
LASTS_S = 300.0
"""How long an alert stays active there after the last notification: several repetitions and the longest retry delay."""
_STATUS_PATH = "/api/v2/status"
_STATUS_READS = 6
"""How often the status is read: a member that takes turns with five others is found."""
_POSTS_FOR_EACH = 4
"""How often a document is posted for each member: at random, three of them all get it in 977 of 1,000 times."""
_MAX_ANNOTATION = 2_000
"""Characters of an annotation: it becomes part of mails and chat messages."""


class AlertmanagerSink(SerialSink[bytes]):
    """Posts to one Alertmanager: for each notification, all firing alerts and the newly resolved ones."""

    def __init__(self, options: DeliveryOptions, links: MessageLinks, server: AlertmanagerServer) -> None:
        """Reads the secrets once, so that a missing one is reported at start-up."""
        super().__init__(options)
        server.check()
        self._links, self._server = links, server
        self._changing_labels: dict[tuple[str, str], tuple[Severity, str]] = {}
        """The labels `severity` and `incident` that a firing alert has there, by incident and fingerprint.

        An alert with a changed label is a different alert there, and the previous one must be ended. After a restart of
        the job the previous one ends at its `endsAt`.
        """
        self._clock = ClockDifference(self.options.name)
        self._unread: set[tuple[str, str]] = set()
        """Firing alerts that were accepted, and not found or not read yet: by incident and fingerprint."""
        self._unreadable = False
        self._posts = 1
        """How often each document is posted: several times if Alertmanagers take turns behind the URL."""
        self._look_at = 0.0
        """When to look next whether they do, in monotonic seconds."""
        self._silences = SilencesPoll(
            self.options.name, read=lambda path: server.call(TIMEOUT_S).read(path), secrets=server.secret_texts
        )

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`: what is silenced there is not sent by the other sinks."""
        self._silences.follow(responses)

    def _document(self, notification: Notification, sent_at_ms: Millis) -> bytes:
        return compact_json(list(self._alerts(notification, sent_at_ms)))

    def _send_one(self, notification: Notification, document: bytes, sent_at_ms: Millis, left_s: float) -> Outcome:
        call, key, posts = self._server.call(left_s), _key(notification), self._posts
        firing = {
            (notification.incident, alert.fingerprint): identity(_labels(alert, alert.severity, key))
            for alert in notification.alerts
            if alert.state is AlertState.FIRING
        }
        response, outcome = self._posted(call, document)
        if isinstance(outcome, Delivered):
            new = {(notification.incident, alert.fingerprint) for alert in notification.new_transitions} | self._unread
            expected = {about: one for about, one in firing.items() if about in new and self._posts == 1}
            differs = self._clock.date_differs(response, sent_at_ms)
            listed = call.listed(key) if expected or differs else None
            if differs and self._clock.adopt(listed, firing.values(), sent_at_ms):
                _, outcome = self._posted(call, self._document(notification, sent_at_ms))
                listed = call.listed(key) if expected else None
            if isinstance(outcome, Delivered) and expected and listed is not None:
                outcome = self._outcome_of_list(call, listed, expected)
        if isinstance(outcome, Delivered):
            if time.monotonic() >= self._look_at:
                self._finds_members(call)
            if self._posts > posts:
                self._posted(call, self._document(notification, sent_at_ms))
            self._store_labels(notification)
        return outcome

    def _posted(self, call: Call, document: bytes) -> tuple[HttpResponse | Retry, Outcome]:
        """Posts to each member; returns the first delivery or, if there is none, the last answer."""
        answers = [call.posted(document) for _ in range(self._posts)]
        return next((one for one in answers if isinstance(one[1], Delivered)), answers[-1])

    def _outcome_of_list(
        self, call: Call, response: HttpResponse | Retry, expected: Mapping[tuple[str, str], Identity]
    ) -> Outcome:
        """Returns whether Alertmanager has these alerts, silenced and inhibited ones included."""
        self._unread |= expected.keys()
        problem = unreadable(response, call.url, call.secrets)
        if problem is not None:
            if not self._unreadable:
                log.warning("sink %s: what Alertmanager accepts cannot be read back: %s", self.options.name, problem)
            self._unreadable = True
            if stays_unreadable(response):
                self._unread -= expected.keys()
            return Delivered()
        self._unreadable = False
        listed = listed_alerts(response)
        if listed is None:
            return outcome_of_response(
                response, call.url, call.secrets, server="Alertmanager", accepted=lambda _: False
            )
        missing = [one for one in expected.values() if one not in listed]
        if missing and not self._finds_members(call):
            return Retry(reason=self._missing_text(missing))
        self._unread -= expected.keys()
        return Delivered()

    def _finds_members(self, call: Call) -> bool:
        """Returns whether several Alertmanagers answer at the URL."""
        self._look_at = time.monotonic() + REPEAT_S
        found = {process for _ in range(_STATUS_READS) if (process := process_of(call.read(_STATUS_PATH)))}
        if len(found) > 1 and self._posts == 1:
            log.warning(
                "sink %s: %s Alertmanagers take turns behind the URL: whether each has an alert cannot be read back; "
                "give each an entry with its own address",
                self.options.name,
                len(found),
            )
        if len(found) > 1:
            self._posts = max(self._posts, _POSTS_FOR_EACH * len(found))
        return len(found) > 1

    def _missing_text(self, missing: Sequence[Identity]) -> str:
        labels = dict(zip(LABELS, missing[0], strict=True))
        first = shortened(f"{labels['alertname']} {labels['subject']}", 80)
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        return (
            f"Alertmanager accepted {first}{more} and does not have it: check its clock (the Date of its answers: "
            f"{self._clock.of_dates} this host's), its limits, and what is behind the URL"
        )

    def _alerts(self, notification: Notification, sent_at_ms: Millis) -> Iterator[dict[str, Plain]]:
        sent_at_ms = Millis(sent_at_ms - self._clock.ahead_ms)
        active_until_ms = Millis(sent_at_ms + round(LASTS_S * 1000))
        incident, links = notification.incident, self._links
        label = _key(notification)
        new = {alert.fingerprint for alert in notification.new_transitions}
        # An incident that becomes critical is a new group, with its older alerts.
        critical_ms = [one.observed_at_ms for one in notification.alerts if one.severity is Severity.CRITICAL]
        group_ms = min(critical_ms, default=0) if notification.escalations else 0
        for one in notification.alerts:
            alert = replace(one, observed_at_ms=Millis(max(one.observed_at_ms, group_ms) - self._clock.ahead_ms))
            labels = (alert.severity, label)
            before = self._changing_labels.get((incident, alert.fingerprint), labels)
            if before != labels:
                yield postable_alert(alert, *before, sent_at_ms=sent_at_ms, ends_at_ms=sent_at_ms, links=links)
            if alert.state is AlertState.FIRING:
                yield postable_alert(alert, *labels, sent_at_ms=sent_at_ms, ends_at_ms=active_until_ms, links=links)
            elif alert.fingerprint in new:
                yield postable_alert(alert, *labels, sent_at_ms=sent_at_ms, ends_at_ms=sent_at_ms, links=links)

    def _store_labels(self, notification: Notification) -> None:
        label = _key(notification)
        for alert in notification.alerts:
            if alert.state is AlertState.FIRING:
                self._changing_labels[notification.incident, alert.fingerprint] = (alert.severity, label)
            else:
                self._changing_labels.pop((notification.incident, alert.fingerprint), None)
                self._unread.discard((notification.incident, alert.fingerprint))


def _key(notification: Notification) -> str:
    return deduplication_key(notification.incident, notification.escalations)


def postable_alert(
    alert: Alert,
    severity: Severity,
    incident: str,
    *,
    sent_at_ms: Millis,
    ends_at_ms: Millis,
    links: MessageLinks,
) -> dict[str, Plain]:
    """Returns an alert as `postableAlert` of the API's OpenAPI document. An alert with a past end is resolved.

    `severity` and `incident` are labels: they may differ from what the alert has now.

    It starts with its newest transition, when the job recorded it: the ledger has that time, so it is the same whenever
    it is sent again; of several starts, Alertmanager keeps the earliest one. It starts at `sent_at_ms`, the wall clock,
    at the latest: an alert that fired before the clock was set back would otherwise end only when the clock reaches its
    start again.
    """
    starts_at_ms = min(Millis(alert.observed_at_ms + (alert.late_ms or 0)), sent_at_ms)
    annotations = {
        "summary": visible(alert.summary),
        "since": iso(alert.started_at_ms),
        "evidence": "\n".join(plain_evidence(alert.evidence)),
        "late": "" if alert.late_ms is None else late_text(alert.late_ms),
        "remedy": "\n".join(map(visible, alert.remedy)),
        "claims": claims_text(alert.claims, _MAX_ANNOTATION),
        "docs": links.rule(alert.rule) or "",
    }
    page = links.cluster(alert.cluster)
    return {
        "labels": {**_labels(alert, severity, incident)},
        "annotations": {name: shortened(text, _MAX_ANNOTATION) for name, text in annotations.items() if text},
        "startsAt": iso(starts_at_ms),
        "endsAt": iso(ends_at_ms),
        **({} if page is None else {"generatorURL": page}),
    }


def _labels(alert: Alert, severity: Severity, incident: str) -> dict[str, str]:
    """Returns the labels, which identify an alert; Alertmanager has none that is empty."""
    values = (alert.rule, alert.cluster, alert.cluster_id, alert.subject, severity.value, incident)
    return {name: visible(text) for name, text in zip(LABELS, values, strict=True) if text}
