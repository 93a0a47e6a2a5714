"""The Alertmanager sink: posts alerts by the API that Prometheus uses, `POST /api/v2/alerts`.

Firing alerts are re-sent every `REPEAT_S`: Alertmanager considers an alert resolved at its `endsAt`, `LASTS_S` after
the last notification, and a restarted Alertmanager has no alerts. Grouping, silences and routing are done there. Each
member of an Alertmanager cluster must be notified: each is a separate sink.

Alertmanager accepts an alert that is over by its own clock, and drops it. So the times are given by its clock where the
two differ by more than CLOCKS_DIFFER_S: the Date of an answer shows it, or is that of a proxy, so the time by which
Alertmanager has received the alert decides, if it has it.

Alertmanager drops alerts beyond a limit, and any HTTP server may accept the request: what is new and firing is
therefore read back once, by `GET /api/v2/alerts`, and what is not there was not delivered. Where the alerts cannot be
read, accepted is delivered.

Where several members take turns behind one URL, an alert that one has accepted is missing in the next one's list. Then
`GET /api/v2/status` shows whether they are several processes: if so, each request is sent as often as there are
members, and an alert is delivered when each of as many lists has it.

What people silence there is silenced for the other sinks too (`alertmanager_silences`).
"""

import base64
import logging
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr, model_validator

from connectors.alert_json import compact_json
from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.settings import placed_error
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
from connectors.wall_clock import wall_ms
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
        self._date_ahead_ms = 0
        """By how much it was ahead of the Date of an answer when Alertmanager's clock was looked at last."""
        self._unread: set[tuple[str, str]] = set()
        """Firing alerts that were accepted, and not found or not read yet: by incident and fingerprint."""
        self._unreadable = False
        self._members = 1
        """How many Alertmanagers take turns behind the URL."""
        _check_url(self._url)
        for secret in self._secrets():
            secret.read()
        self._silences = SilencesPoll(
            self.options.name, read=self._read, secrets=lambda: [secret.read() for secret in self._secrets()]
        )

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`: what is silenced there is not sent by the other sinks."""
        self._silences.follow(responses)

    def _read(self, path: str) -> HttpResponse | Retry:
        url = self._url.read().rstrip("/") + path
        return get(
            url,
            seconds=TIMEOUT_S,
            headers=self._authorization(),
            ca_file=self._section.ca_file,
            answer_bytes=LIST_BYTES,
        )

    def _document(self, notification: Notification, sent_at_ms: Millis) -> bytes:
        return compact_json(list(self._alerts(notification, sent_at_ms)))

    def _send_one(self, notification: Notification, document: bytes, sent_at_ms: Millis, left_s: float) -> Outcome:
        call = _Call(
            url=self._url.read().rstrip("/"),
            secrets=[secret.read() for secret in self._secrets()],
            until=time.monotonic() + left_s,
            options={"headers": self._authorization(), "ca_file": self._section.ca_file},
            query=list_query(self._key(notification)),
        )
        response, outcome = self._post(call, document)
        firing = self._firing(notification)
        if isinstance(outcome, Delivered) and (of_date_ms := self._new_difference(response, sent_at_ms)) is not None:
            ahead_ms = _difference_by_list(call.listed(), firing.values(), sent_at_ms)
            if self._adopt_clock(of_date_ms if ahead_ms is None else ahead_ms):
                _, outcome = self._post(call, self._document(notification, sent_at_ms))
        expected = {about: firing[about] for about in self._to_read(notification) if about in firing}
        if isinstance(outcome, Delivered) and expected:
            outcome = self._read_back(call, expected)
            if isinstance(outcome, Retry) and self._finds_members(call):
                _, outcome = self._post(call, self._document(notification, sent_at_ms))
                outcome = self._read_back(call, expected) if isinstance(outcome, Delivered) else outcome
        if isinstance(outcome, Delivered):
            self._store_labels(notification)
        return outcome

    def _post(self, call: "_Call", document: bytes) -> tuple[HttpResponse | Retry, Outcome]:
        """Sends the document to each member; returns the last answer, which is the first one that is no delivery."""
        response, outcome = call.posted(document)
        for _ in range(self._members - 1):
            if isinstance(outcome, Delivered):
                response, outcome = call.posted(document)
        return response, outcome

    def _read_back(self, call: "_Call", expected: Mapping[tuple[str, str], Identity]) -> Outcome:
        """Returns whether each member has these alerts."""
        outcome = self._outcome_of_list(call.listed(), expected, call.url, call.secrets)
        for _ in range(self._members - 1):
            if isinstance(outcome, Delivered):
                outcome = self._outcome_of_list(call.listed(), expected, call.url, call.secrets)
        return outcome

    def _finds_members(self, call: "_Call") -> bool:
        """Returns whether more Alertmanagers answer at the URL than were known."""
        found = {process for _ in range(_STATUS_READS) if (process := process_of(call.read(_STATUS_PATH)))}
        if len(found) <= self._members:
            return False
        self._members = len(found)
        log.warning(
            "sink %s: %s Alertmanagers take turns behind the URL: each alert is sent to all of them; give each an "
            "entry with its own address",
            self.options.name,
            self._members,
        )
        return True

    def _key(self, notification: Notification) -> str:
        return deduplication_key(notification.incident, notification.escalations)

    def _firing(self, notification: Notification) -> Mapping[tuple[str, str], Identity]:
        """Returns the firing alerts as Alertmanager must have them, by incident and fingerprint."""
        key = self._key(notification)
        return {
            (notification.incident, alert.fingerprint): identity(_labels(alert, alert.severity, key))
            for alert in notification.alerts
            if alert.state is AlertState.FIRING
        }

    def _to_read(self, notification: Notification) -> Collection[tuple[str, str]]:
        """Returns of which alerts it is not known yet that Alertmanager has them: new ones, and ones not read yet."""
        return {(notification.incident, alert.fingerprint) for alert in notification.new_transitions} | self._unread

    def _outcome_of_list(
        self,
        response: HttpResponse | Retry,
        expected: Mapping[tuple[str, str], Identity],
        url: str,
        secrets: Sequence[str],
    ) -> Outcome:
        """Returns whether Alertmanager has these alerts, silenced and inhibited ones included."""
        self._unread |= expected.keys()
        problem = unreadable(response, url, secrets)
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
            return outcome_of_response(response, url, secrets, server="Alertmanager", accepted=lambda _: False)
        missing = [one for one in expected.values() if one not in listed]
        if missing:
            return Retry(reason=self._missing_text(missing))
        self._unread -= expected.keys()
        return Delivered()

    def _missing_text(self, missing: Sequence[Identity]) -> str:
        labels = dict(zip(LABELS, missing[0], strict=True))
        first = shortened(f"{labels['alertname']} {labels['subject']}", 80)
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        differs = abs(self._date_ahead_ms) > CLOCKS_DIFFER_S * 1000
        difference = _difference(self._date_ahead_ms) if differs else "no difference to"
        return (
            f"Alertmanager accepted {first}{more} and does not have it: check its clock (the Date of its answers: "
            f"{difference} this host's), its limits, and what is behind the URL"
        )

    def _new_difference(self, response: HttpResponse | Retry, sent_at_ms: Millis) -> int | None:
        """Returns by how much this clock is ahead of the Date of an answer; None if that is not new."""
        if not isinstance(response, HttpResponse):
            return None
        try:
            theirs_ms = parsedate_to_datetime(response.headers["Date"]).timestamp() * 1000
        except (LookupError, ValueError, TypeError, OverflowError):
            return None
        ahead_ms = round(sent_at_ms - theirs_ms)
        if abs(ahead_ms - self._date_ahead_ms) <= CLOCKS_DIFFER_S * 1000:
            return None
        self._date_ahead_ms = ahead_ms
        return ahead_ms

    def _adopt_clock(self, ahead_ms: int) -> bool:
        """Takes the clock of Alertmanager, if it differs; returns whether the sent times were wrong."""
        if abs(ahead_ms - self._ahead_ms) <= CLOCKS_DIFFER_S * 1000:
            return False
        if abs(ahead_ms) <= CLOCKS_DIFFER_S * 1000:
            ahead_ms = 0
        log.warning(
            "sink %s: Alertmanager's clock is %s: %s",
            self.options.name,
            f"{_difference(ahead_ms)} this host's" if ahead_ms else "right again",
            "alerts are sent with its times; set the wrong clock"
            if ahead_ms
            else "alerts are sent with this host's times",
        )
        self._ahead_ms = ahead_ms
        return True

    def _alerts(self, notification: Notification, sent_at_ms: Millis) -> Iterator[dict[str, Plain]]:
        sent_at_ms = Millis(sent_at_ms - self._ahead_ms)
        active_until_ms = Millis(sent_at_ms + round(LASTS_S * 1000))
        incident, links = notification.incident, self._links
        label = self._key(notification)
        new = {alert.fingerprint for alert in notification.new_transitions}
        for one in notification.alerts:
            alert = replace(one, started_at_ms=Millis(one.started_at_ms - self._ahead_ms))
            labels = (alert.severity, label)
            before = self._changing_labels.get((incident, alert.fingerprint), labels)
            if before != labels:
                yield postable_alert(alert, *before, sent_at_ms=sent_at_ms, ends_at_ms=sent_at_ms, links=links)
            if alert.state is AlertState.FIRING:
                yield postable_alert(alert, *labels, sent_at_ms=sent_at_ms, ends_at_ms=active_until_ms, links=links)
            elif alert.fingerprint in new:
                yield postable_alert(alert, *labels, sent_at_ms=sent_at_ms, ends_at_ms=sent_at_ms, links=links)

    def _store_labels(self, notification: Notification) -> None:
        label = self._key(notification)
        for alert in notification.alerts:
            if alert.state is AlertState.FIRING:
                self._changing_labels[notification.incident, alert.fingerprint] = (alert.severity, label)
            else:
                self._changing_labels.pop((notification.incident, alert.fingerprint), None)
                self._unread.discard((notification.incident, alert.fingerprint))

    def _secrets(self) -> Sequence[Secret]:
        return [secret for secret in (self._url, self._password, self._token) if secret is not None]

    def _authorization(self) -> Mapping[str, str]:
        if self._token is not None:
            return {"Authorization": f"Bearer {self._token.read()}"}
        if self._password is not None:
            login = f"{self._section.username}:{self._password.read()}".encode()
            return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        return {}


@dataclass(frozen=True, kw_only=True)
class _Call:
    """The requests for one notification, which all end at one deadline."""

    url: str
    """Of Alertmanager, without a path."""
    secrets: Sequence[str]
    until: float
    options: Mapping[str, Any]
    query: str
    """Of the list of the incident's alerts."""

    def posted(self, document: bytes) -> tuple[HttpResponse | Retry, Outcome]:
        url = self.url + _PATH
        response = post(url, document, seconds=self.until - time.monotonic(), **self.options)
        return response, outcome_of_response(response, url, self.secrets, server="Alertmanager", accepted=_accepted)

    def listed(self) -> HttpResponse | Retry:
        return self.read(f"{_PATH}?{self.query}")

    def read(self, path: str) -> HttpResponse | Retry:
        return get(self.url + path, seconds=self.until - time.monotonic(), answer_bytes=LIST_BYTES, **self.options)


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

    `severity` and `incident` are labels: they may differ from what the alert has now. It starts at `sent_at_ms`, the
    wall clock, at the latest: an alert that began before the clock was set back would otherwise end only when the clock
    reaches its start again.
    """
    starts_at_ms = min(alert.started_at_ms, sent_at_ms)
    annotations = {
        "summary": visible(alert.summary),
        "evidence": "\n".join(plain_evidence(alert.evidence)),
        "late": "" if alert.late_ms is None else late_text(alert.late_ms),
        "remedy": "\n".join(map(visible, alert.remedy)),
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


def _difference_by_list(response: HttpResponse | Retry, sent: Iterable[Identity], sent_at_ms: Millis) -> int | None:
    """Returns by how much this clock is ahead of the one by which Alertmanager received these alerts just now.

    None if it has none of them, or is not asked.
    """
    listed = listed_alerts(response) or {}
    times = [at_ms for one in sent if (at_ms := listed.get(one)) is not None]
    return round(sent_at_ms - max(times)) if times else None


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
