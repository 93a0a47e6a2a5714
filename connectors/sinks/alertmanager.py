"""The Alertmanager sink: posts alerts by the API that Prometheus uses, `POST /api/v2/alerts`.

Firing alerts are re-sent every `REPEAT_S`: Alertmanager considers an alert resolved at its `endsAt`, `LASTS_S` after
the last notification, and a restarted Alertmanager has no alerts. Grouping, silences and routing are done there. Each
member of an Alertmanager cluster must be notified: each is a separate sink.

Alertmanager accepts an alert that is over by its own clock, and drops it. So where the Date of an answer differs from
this host's clock by more than CLOCKS_DIFFER_S, the times are given by the clock by which Alertmanager has received the
alert, since the Date may be that of a proxy; by the Date, if it does not have the alert.

An alert starts there when it fired, not when its condition began (the annotation `since`): Alertmanager notifies of a
new group at once if its first alert is older than `group_wait`, and of the rest after `group_interval`.

Alertmanager drops alerts beyond a limit, and any HTTP server may accept the request: what is new and firing is
therefore read back once, by `GET /api/v2/alerts`, and what is not there was not delivered. Where the alerts cannot be
read, accepted is delivered.

Several members may take turns behind one URL, in order or at random: their lists differ, so none is read back, and one
that no longer gets an alert would resolve it. Each document is then posted so often that each member gets it. One of
them may be down, for which the balancer answers: it is delivered if one member accepts it.

What people silence there is silenced for the other sinks too (`alertmanager_silences`).
"""

import base64
import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr, model_validator

from connectors.errors import UsageError
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.settings.sections import placed_error
from connectors.sinks.alert_json import claims_text, compact_json
from connectors.sinks.alertmanager_list import (
    LABELS,
    LIST_BYTES,
    Identity,
    identity,
    list_query,
    listed_alerts,
    process_of,
    stays_unreadable,
    unreadable,
)
from connectors.sinks.alertmanager_silences import SilencesPoll
from connectors.sinks.http_request import HttpResponse, get, outcome_of_response, post
from connectors.sinks.sink import Delivered, Outcome, Responses, Retry, SerialSink
from connectors.sinks.sink_config import TEST_RULE, TIMEOUT_S, MessageLinks, SinkSection, SinkServer, url_server
from connectors.sinks.webhook import host_of
from connectors.store.store_place import StorePlace
from rules.alert import Alert, AlertState
from rules.evidence_text import plain_evidence
from rules.finding import Plain, Severity
from rules.formatting import iso, late_text, ms_text, shortened, visible
from rules.model.identifiers import Millis
from rules.model.job_state import JOB_CLUSTER_ID
from rules.notifications.incident import deduplication_key
from rules.notifications.notification import Notification

log = logging.getLogger(__name__)

REPEAT_S = 60.0
"""How often firing alerts are sent again."""
LASTS_S = 300.0
"""How long an alert stays active there after the last notification: several repetitions and the longest retry delay."""
CLOCKS_DIFFER_S = 200.0
"""A larger difference of the clocks is corrected: an alert that ends early must still be sent again before its end,
also after some failures."""
_PATH = "/api/v2/alerts"
_STATUS_PATH = "/api/v2/status"
_STATUS_READS = 6
"""How often the status is read: a member that takes turns with five others is found."""
_POSTS_FOR_EACH = 4
"""How often a document is posted for each member: at random, three of them all get it in 977 of 1,000 times."""
_API_PATH = re.compile(r"/api(/v[0-9]+(/alerts)?)?$")
_MAX_ANNOTATION = 2_000
"""Characters of an annotation: it becomes part of mails and chat messages."""


class AlertmanagerSection(SinkSection):
    """One Alertmanager. Each member of an Alertmanager cluster needs an entry, because each must be notified."""

    form = "alertmanager:URL"
    text_key = "url"
    fixed_repeat_s = REPEAT_S
    # Alertmanager notifies only of an alert that is still firing after `group_wait`.
    test_resolves = False

    url: SecretStr | None = None
    """http://HOST:9093, without /api/v2/alerts; only the host is ever printed."""
    url_file: Path | None = None
    username: str | None = None
    """For basic authentication, with `password` or `password_file`."""
    password: SecretStr | None = None
    password_file: Path | None = None
    token: SecretStr | None = None
    """A bearer token, instead of a user name and a password."""
    token_file: Path | None = None
    ca_file: Path | None = None
    """PEM: trusted certificate authorities instead of the system's."""

    @model_validator(mode="after")
    def _whole(self) -> "AlertmanagerSection":
        self.required_secret("url")
        problem = None if self.url is None else _url_problem(self.url.get_secret_value())
        if problem is not None:
            raise placed_error(problem, "url")
        password, token = self.secret("password"), self.secret("token")
        if (self.username is None) != (password is None):
            raise ValueError("username and password (or password_file) go together: give both or none")
        if password is not None and token is not None:
            raise ValueError("give a password or a token, not both")
        return self

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        url = self.required_secret("url")
        _check_url(url)
        return f"alertmanager:{host_of(url)}"

    def open(self, links: MessageLinks, store: StorePlace) -> "AlertmanagerSink":
        """Opens the sink."""
        return AlertmanagerSink(self, links)

    def expectation(self, name: str, severity: Severity) -> str:
        """Returns what a person should see after a test."""
        ends = datetime.fromtimestamp(wall_ms() / 1000 + LASTS_S, UTC)
        return (
            f"Alertmanager routes alertname {TEST_RULE}, cluster {JOB_CLUSTER_ID}, severity {severity}: its receiver "
            f"is notified after the route's group_wait (30 s by default); it ends by itself at {ends:%H:%M:%S} UTC"
        )

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the URL."""
        return [url_server(self.required_secret("url"), self.ca_file)]


class AlertmanagerSink(SerialSink[bytes]):
    """Posts to one Alertmanager: for each notification, all firing alerts and the newly resolved ones."""

    def __init__(self, section: AlertmanagerSection, links: MessageLinks) -> None:
        """Reads the secrets once, so that a missing one is reported at start-up."""
        super().__init__(section.options)
        self._section, self._url = section, section.required_secret("url")
        self._password, self._token = section.secret("password"), section.secret("token")
        self._links = links
        self._changing_labels: dict[tuple[str, str], tuple[Severity, str]] = {}
        """The labels `severity` and `incident` that a firing alert has there, by incident and fingerprint.

        An alert with a changed label is a different alert there, and the previous one must be ended. After a restart of
        the job the previous one ends at its `endsAt`.
        """
        self._ahead_ms = 0
        """By how much this clock is ahead of Alertmanager's; 0 for what does not matter."""
        self._ahead_of_date_ms = 0
        """By how much it was ahead of the Date of an answer, when that differed last."""
        self._unread: set[tuple[str, str]] = set()
        """Firing alerts that were accepted, and not found or not read yet: by incident and fingerprint."""
        self._unreadable = False
        self._posts = 1
        """How often each document is posted: several times if Alertmanagers take turns behind the URL."""
        self._look_at = 0.0
        """When to look next whether they do, in monotonic seconds."""
        _check_url(self._url)
        for secret in self._secrets():
            secret.read()
        self._silences = SilencesPoll(
            self.options.name, read=lambda path: self._call(TIMEOUT_S).read(path), secrets=self._secret_texts
        )

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`: what is silenced there is not sent by the other sinks."""
        self._silences.follow(responses)

    def _document(self, notification: Notification, sent_at_ms: Millis) -> bytes:
        return compact_json(list(self._alerts(notification, sent_at_ms)))

    def _send_one(self, notification: Notification, document: bytes, sent_at_ms: Millis, left_s: float) -> Outcome:
        call, key, posts = self._call(left_s), _key(notification), self._posts
        firing = {
            (notification.incident, alert.fingerprint): identity(_labels(alert, alert.severity, key))
            for alert in notification.alerts
            if alert.state is AlertState.FIRING
        }
        response, outcome = self._posted(call, document)
        if isinstance(outcome, Delivered):
            new = {(notification.incident, alert.fingerprint) for alert in notification.new_transitions} | self._unread
            expected = {about: one for about, one in firing.items() if about in new and self._posts == 1}
            differs = self._date_differs(response, sent_at_ms)
            listed = call.listed(key) if expected or differs else None
            if differs and self._adopt_clock(listed, firing.values(), sent_at_ms):
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

    def _posted(self, call: "_Call", document: bytes) -> tuple[HttpResponse | Retry, Outcome]:
        """Posts to each member; returns the first delivery or, if there is none, the last answer."""
        answers = [call.posted(document) for _ in range(self._posts)]
        return next((one for one in answers if isinstance(one[1], Delivered)), answers[-1])

    def _outcome_of_list(
        self, call: "_Call", response: HttpResponse | Retry, expected: Mapping[tuple[str, str], Identity]
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

    def _finds_members(self, call: "_Call") -> bool:
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
        difference = _difference(self._ahead_of_date_ms) if self._ahead_of_date_ms else "no difference to"
        return (
            f"Alertmanager accepted {first}{more} and does not have it: check its clock (the Date of its answers: "
            f"{difference} this host's), its limits, and what is behind the URL"
        )

    def _date_differs(self, response: HttpResponse | Retry, sent_at_ms: Millis) -> bool:
        """Returns whether the Date of an answer shows another clock than the one before."""
        date = response.headers.get("Date", "") if isinstance(response, HttpResponse) else ""
        try:
            ahead_ms = _difference_that_matters(sent_at_ms - parsedate_to_datetime(date).timestamp() * 1000)
        except (ValueError, TypeError, OverflowError):
            return False
        differs = _difference_that_matters(ahead_ms - self._ahead_of_date_ms) != 0
        if differs:
            self._ahead_of_date_ms = ahead_ms
        return differs

    def _adopt_clock(self, listed: HttpResponse | Retry | None, sent: Collection[Identity], sent_at_ms: Millis) -> bool:
        """Takes the clock of Alertmanager; returns whether the sent times were wrong."""
        received = (listed_alerts(listed) if listed is not None else None) or {}
        times = [at_ms for one in sent if (at_ms := received.get(one)) is not None]
        ahead_ms = _difference_that_matters(sent_at_ms - max(times)) if times else self._ahead_of_date_ms
        if not _difference_that_matters(ahead_ms - self._ahead_ms):
            return False
        log.warning(
            "sink %s: Alertmanager's clock is %s",
            self.options.name,
            f"{_difference(ahead_ms)} this host's: alerts are sent with its times; set the wrong clock"
            if ahead_ms
            else "right again: alerts are sent with this host's times",
        )
        self._ahead_ms = ahead_ms
        return True

    def _alerts(self, notification: Notification, sent_at_ms: Millis) -> Iterator[dict[str, Plain]]:
        sent_at_ms = Millis(sent_at_ms - self._ahead_ms)
        active_until_ms = Millis(sent_at_ms + round(LASTS_S * 1000))
        incident, links = notification.incident, self._links
        label = _key(notification)
        new = {alert.fingerprint for alert in notification.new_transitions}
        # An incident that becomes critical is a new group, with its older alerts.
        critical_ms = [one.observed_at_ms for one in notification.alerts if one.severity is Severity.CRITICAL]
        group_ms = min(critical_ms, default=0) if notification.escalations else 0
        for one in notification.alerts:
            alert = replace(one, observed_at_ms=Millis(max(one.observed_at_ms, group_ms) - self._ahead_ms))
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

    def _secrets(self) -> Sequence[Secret]:
        return [secret for secret in (self._url, self._password, self._token) if secret is not None]

    def _secret_texts(self) -> Sequence[str]:
        return [secret.read() for secret in self._secrets()]

    def _call(self, seconds: float) -> "_Call":
        """Returns what calls Alertmanager for so long. Raises UsageError if a secret cannot be read."""
        headers = {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read()}"
        if self._password is not None:
            login = f"{self._section.username}:{self._password.read()}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        return _Call(
            url=self._url.read().rstrip("/"),
            secrets=self._secret_texts(),
            until=time.monotonic() + seconds,
            options={"headers": headers, "ca_file": self._section.ca_file},
        )


@dataclass(frozen=True, kw_only=True)
class _Call:
    """Requests that all end at one deadline."""

    url: str
    """Of Alertmanager, without a path."""
    secrets: Sequence[str]
    until: float
    options: Mapping[str, Any]

    def posted(self, document: bytes) -> tuple[HttpResponse | Retry, Outcome]:
        url = self.url + _PATH
        response = post(url, document, seconds=self.until - time.monotonic(), **self.options)
        return response, outcome_of_response(response, url, self.secrets, server="Alertmanager", accepted=_accepted)

    def listed(self, incident: str) -> HttpResponse | Retry:
        return self.read(f"{_PATH}?{list_query(incident)}")

    def read(self, path: str) -> HttpResponse | Retry:
        return get(self.url + path, seconds=self.until - time.monotonic(), answer_bytes=LIST_BYTES, **self.options)


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


def _accepted(response: HttpResponse) -> bool:
    """Returns whether a response is that of `POST /api/v2/alerts`, which has no body; a proxy may add one in JSON."""
    return response.status == 200 and (not response.text.strip() or isinstance(response.json, dict))


def _difference_that_matters(ahead_ms: float) -> int:
    """Returns a difference of two clocks; 0 for one that is not corrected."""
    return round(ahead_ms) if abs(ahead_ms) > CLOCKS_DIFFER_S * 1000 else 0


def _difference(ahead_ms: int) -> str:
    return f"{ms_text(Millis(abs(ahead_ms)))} {'behind' if ahead_ms > 0 else 'ahead of'}"


def _url_problem(url: str) -> str | None:
    """Returns what is wrong with the URL of an Alertmanager, without its secrets; None if nothing is."""
    problem = "is not the address of an Alertmanager: write http://HOST:9093, without /api, ? or #"
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return problem
    # The API's path is added; with a part after ? or #, a browser's address was copied.
    further = parts.query or parts.fragment or _API_PATH.search(parts.path.rstrip("/"))
    return None if whole and not further else problem


def _check_url(url: Secret) -> None:
    problem = _url_problem(url.read())
    if problem is not None:
        raise UsageError(f"url{url.place} {problem}")
