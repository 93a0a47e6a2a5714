"""The generic webhook: one JSON document a notice, by POST.

`{"version": 1, "notice", "incident", "reason", "state", "severity", "cluster", "summary", "started_at", "sent_at",
"links", "alerts", "news"}`: `alerts` and `news` hold the objects that jsonl writes. `notice` is the same when the
same notice is sent again, which happens where an answer got lost: a receiver may drop it by that.

Incidents and not transitions: a receiver that wants each transition reads a jsonl file or a topic.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.alert_json import iso, to_object
from connectors.sinks.http.request import submitted
from connectors.sinks.links import Links
from connectors.sinks.sequential_send import in_turn
from connectors.sinks.sink import Outcome, Retry, Terms
from connectors.sinks.sink_config import Webhook
from rules.finding import Plain
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

SIGNATURE = "X-Kraftwatch-Signature"
"""`t=SECONDS,v1=HEX`: HMAC-SHA-256 over `SECONDS.BODY` with the signing key."""


class WebhookSink:
    """Posts documents to one address. The ledger tries again; nothing is tried twice in one call."""

    def __init__(self, place: Webhook, *, terms: Terms, links: Links) -> None:
        """Read the secrets once, so that one that is not there is told at the start.

        Raises:
            UsageError: one cannot be read, or the address is none.
        """
        self.terms = terms
        self._place = place
        self._links = links
        host_of(place.url)
        for secret in self._secrets():
            secret.read()

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Post each notice."""
        return in_turn(notices, lambda notice, left_s: self._post(notice, sent_at_ms, left_s), deadline_s=deadline_s)

    def _post(self, notice: Notice, sent_at_ms: Millis, left_s: float) -> Outcome:
        body = json.dumps(document(notice, sent_at_ms, self._links), allow_nan=False, separators=(",", ":")).encode()
        try:
            secrets = [secret.read() for secret in self._secrets()]
            headers = self._headers(body, sent_at_ms)
            url = self._place.url.read()
        except UsageError as problem:
            return Retry(reason=str(problem))
        return submitted(url, body, headers, seconds=left_s, ca_file=self._place.ca_file, secrets=secrets)

    def _secrets(self) -> Sequence[Secret]:
        signing = [self._place.signing_key] if self._place.signing_key else []
        return [self._place.url, *(value for _, value in self._place.headers), *signing]

    def _headers(self, body: bytes, sent_at_ms: Millis) -> Mapping[str, str]:
        own = {"Content-Type": "application/json", "User-Agent": "kraftwatch"}
        given = {name: secret.read() for name, secret in self._place.headers}
        if self._place.signing_key is None:
            return {**own, **given}
        seconds = sent_at_ms // 1000
        signed = hmac.new(self._place.signing_key.read().encode(), b"%d.%s" % (seconds, body), hashlib.sha256)
        return {**own, **given, SIGNATURE: f"t={seconds},v1={signed.hexdigest()}"}


def document(notice: Notice, sent_at_ms: Millis, links: Links) -> dict[str, Plain]:
    """The JSON document of one notice."""
    root = notice.root
    return {
        "version": 1,
        "notice": _identity(notice, sent_at_ms),
        "incident": notice.incident,
        "reason": notice.reason.value,
        "state": notice.state.value,
        "severity": notice.severity.value,
        "cluster": root.cluster,
        "summary": root.summary,
        "started_at": iso(notice.started_at_ms),
        "sent_at": iso(sent_at_ms),
        "links": {"rule": links.rule(root.rule), "cluster": links.cluster(root.cluster)},
        "alerts": [to_object(alert, sent_at_ms) for alert in notice.alerts],
        "news": [to_object(alert, sent_at_ms) for alert in notice.news],
    }


def host_of(url: Secret) -> str:
    """The host and port that a URL names: what may be shown of it.

    Raises:
        UsageError: it is no http URL, or cannot be read.
    """
    try:
        parts = urlsplit(url.read())
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        raise UsageError("the url is no address: write https://HOST/PATH") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError("the url is no address: write https://HOST/PATH")
    return f"{parts.hostname}{port}"


def _identity(notice: Notice, sent_at_ms: Millis) -> str:
    """The same for the same news; each repetition is a notice of its own."""
    news = [tuple(map(str, alert.key)) for alert in notice.news]
    text = repr([notice.incident, notice.reason.value, news or sent_at_ms])
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]
