"""Alertmanager, by the API that Prometheus tells it by: `POST /api/v2/alerts`.

It is told what fires, again and again: an alert that it has not heard of for `LASTS_S` is over to it, and one that
was started again knows nothing until it is told. Grouping, silences and who is paged are its own business. Of
several that are one cluster, each must be told: each is a sink by itself.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import written
from connectors.sinks.http.request import submitted
from connectors.sinks.links import Links
from connectors.sinks.sequential_send import in_turn
from connectors.sinks.sink import Delivered, Outcome, Retry, Terms
from connectors.sinks.sink_config import Alertmanager
from connectors.sinks.webhook import host_of
from rules.alert import Alert, AlertState
from rules.finding import Plain, Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

REPEAT_S = 60.0
"""How often what stands is told again."""
LASTS_S = 300.0
"""How long it stands there without a word of ours: several repetitions, and the longest pause after a failure."""
_PATH = "/api/v2/alerts"
_LONGEST = 2_000
"""Characters of an annotation: it goes into mails and chats."""


class AlertmanagerSink:
    """Posts to one Alertmanager."""

    def __init__(self, place: Alertmanager, *, terms: Terms, links: Links) -> None:
        """Read the secrets once, so that one that is not there is told at the start.

        Raises:
            UsageError: one cannot be read, or the address is none.
        """
        self.terms = terms
        self._place = place
        self._links = links
        self._severity: dict[tuple[str, str], Severity] = {}
        """Under which severity a firing alert stands there, by incident and fingerprint.

        A severity is a label, so another one is another alert there, and the one before it must be ended. After a
        restart of ours that one ends by itself.
        """
        host_of(place.url)
        for secret in self._secrets():
            secret.read()

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Post the alerts of each notice: all that fire, and those whose end is news."""
        return in_turn(notices, lambda notice, left_s: self._post(notice, sent_at_ms, left_s), deadline_s=deadline_s)

    def _post(self, notice: Notice, sent_at_ms: Millis, left_s: float) -> Outcome:
        body = json.dumps(list(self._alerts(notice, sent_at_ms)), allow_nan=False, separators=(",", ":")).encode()
        try:
            url = self._place.url.read().rstrip("/") + _PATH
            headers = {"Content-Type": "application/json", "User-Agent": "kraftwatch", **self._login()}
            secrets = [secret.read() for secret in self._secrets()]
        except UsageError as problem:
            return Retry(reason=str(problem))
        outcome = submitted(url, body, headers, seconds=left_s, ca_file=self._place.ca_file, secrets=secrets)
        if isinstance(outcome, Delivered):
            self._note(notice)
        return outcome

    def _alerts(self, notice: Notice, sent_at_ms: Millis) -> Iterator[dict[str, Plain]]:
        lasts_until_ms = Millis(sent_at_ms + round(LASTS_S * 1000))
        news = {alert.fingerprint for alert in notice.news}
        for alert in notice.alerts:
            before = self._severity.get((notice.incident, alert.fingerprint), alert.severity)
            if before is not alert.severity:
                yield posted(alert, notice.incident, before, ends_at_ms=sent_at_ms, links=self._links)
            if alert.state is AlertState.FIRING:
                yield posted(alert, notice.incident, alert.severity, ends_at_ms=lasts_until_ms, links=self._links)
            elif alert.fingerprint in news:
                yield posted(alert, notice.incident, alert.severity, ends_at_ms=sent_at_ms, links=self._links)

    def _note(self, notice: Notice) -> None:
        for alert in notice.alerts:
            if alert.state is AlertState.FIRING:
                self._severity[notice.incident, alert.fingerprint] = alert.severity
            else:
                self._severity.pop((notice.incident, alert.fingerprint), None)

    def _secrets(self) -> Sequence[Secret]:
        return [secret for secret in (self._place.url, self._place.password, self._place.token) if secret is not None]

    def _login(self) -> Mapping[str, str]:
        if self._place.token is not None:
            return {"Authorization": f"Bearer {self._place.token.read()}"}
        if self._place.password is not None:
            login = f"{self._place.username}:{self._place.password.read()}".encode()
            return {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
        return {}


def posted(alert: Alert, incident: str, severity: Severity, *, ends_at_ms: Millis, links: Links) -> dict[str, Plain]:
    """One alert as the API takes it (`postableAlert` of its OpenAPI document). One that ended in the past is over."""
    annotations = {
        "summary": alert.summary,
        "evidence": "\n".join(f"{name}: {value}" for name, value in written(alert.evidence)),
        "remedy": "\n".join(alert.remedy),
        "docs": links.rule(alert.rule) or "",
    }
    page = links.cluster(alert.cluster)
    return {
        "labels": {
            "alertname": alert.rule,
            "cluster": alert.cluster,
            "cluster_id": alert.cluster_id,
            "subject": alert.subject,
            "severity": severity.value,
            "incident": incident,
        },
        "annotations": {name: _bounded(text) for name, text in annotations.items() if text},
        "startsAt": iso(alert.started_at_ms),
        # An end before the beginning is refused: the clocks of the two may differ.
        "endsAt": iso(max(ends_at_ms, alert.started_at_ms)),
        **({} if page is None else {"generatorURL": page}),
    }


def _bounded(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
