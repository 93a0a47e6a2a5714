"""The generic webhook sink: one JSON document for each notification, by POST.

`{"version": 1, "notice", "incident", "reason", "state", "severity", "cluster", "summary", "started_at", "sent_at",
"links", "alerts", "new_transitions"}`: the last two hold the objects that jsonl writes. `notice` is the notification's
id: it is the same when a notification is sent again because the response was lost, so a receiver can drop duplicates.

Documents are sent per incident; a receiver that needs each transition reads a jsonl file or a topic.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from connectors.errors import UsageError
from connectors.settings.secret import Secret
from connectors.settings.sections import ConfiguredSecret, HttpSection, url_problem
from connectors.sinks.alert_json import compact_json, to_object
from connectors.sinks.http_request import outcome_of_response, post
from connectors.sinks.sink import Outcome, SerialSink
from connectors.sinks.sink_config import TEST_RULE, MessageLinks, PeopleSection, SinkServer, url_server
from connectors.store.store_place import StorePlace
from rules.formatting import iso
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

SIGNATURE = "X-Kraftwatch-Signature"
"""`t=SECONDS,v1=HEX`: HMAC-SHA-256 over `SECONDS.BODY` with the signing key."""


class WebhookSection(PeopleSection, HttpSection):
    """An HTTP server: one JSON document per notification, by POST."""

    form = "webhook:URL"
    text_key = "url"
    expected = f"{{name}} received two documents with rule {TEST_RULE}: firing and resolved"

    signing_key: ConfiguredSecret | None = None
    """The key that signs each document: header X-Kraftwatch-Signature."""

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return f"webhook:{host_of(self.url)}"

    def open(self, links: MessageLinks, store: StorePlace) -> "WebhookSink":
        """Opens the sink."""
        return WebhookSink(self, links)

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the URL."""
        return [url_server(self.url, self.ca_file)]


class WebhookSink(SerialSink[bytes]):
    """Posts documents to one URL. It does not retry within a call: the dispatcher schedules retries."""

    def __init__(self, section: WebhookSection, links: MessageLinks) -> None:
        """Reads the secrets once, so that a missing one is reported at start-up."""
        super().__init__(section.options)
        self._url, self._ca_file = section.url, section.ca_file
        self._further_headers, self._signing_key = tuple(section.headers.items()), section.signing_key
        self._links = links
        host_of(self._url)
        for secret in self._secrets():
            secret.read()

    def _document(self, notification: Notification, sent_at_ms: Millis) -> bytes:
        return compact_json(document(notification, sent_at_ms, self._links))

    def _send_one(self, notification: Notification, document: bytes, sent_at_ms: Millis, left_s: float) -> Outcome:
        secrets = [secret.read() for secret in self._secrets()]
        headers, url = self._headers(document, sent_at_ms), self._url.read()
        # Only a short answer is read: a receiver may send whatever it likes.
        response = post(url, document, seconds=left_s, headers=headers, ca_file=self._ca_file, answer_bytes=0)
        return outcome_of_response(response, url, secrets)

    def _secrets(self) -> Sequence[Secret]:
        signing = [self._signing_key] if self._signing_key else []
        return [self._url, *(value for _, value in self._further_headers), *signing]

    def _headers(self, body: bytes, sent_at_ms: Millis) -> Mapping[str, str]:
        configured = {name: secret.read() for name, secret in self._further_headers}
        if self._signing_key is None:
            return configured
        seconds = sent_at_ms // 1000
        key = self._signing_key.read().encode()
        signature = hmac.new(key, b"%d.%s" % (seconds, body), hashlib.sha256).hexdigest()
        return {**configured, SIGNATURE: f"t={seconds},v1={signature}"}


def document(notification: Notification, sent_at_ms: Millis, links: MessageLinks) -> dict[str, object]:
    """Returns the JSON document of one notification. Its field names are an interface: they must not change."""
    root = notification.root
    return {
        "version": 1,
        "notice": notification.id,
        "incident": notification.incident,
        "reason": notification.reason.value,
        "state": notification.state.value,
        "severity": notification.severity.value,
        "cluster": root.cluster,
        "summary": notification.summary,
        "started_at": iso(notification.started_at_ms),
        "sent_at": iso(sent_at_ms),
        "links": {"rule": links.rule(root.rule), "cluster": links.cluster(root.cluster)},
        "alerts": [to_object(alert, sent_at_ms) for alert in notification.alerts],
        "new_transitions": [to_object(alert, sent_at_ms) for alert in notification.new_transitions],
    }


def host_of(url: Secret) -> str:
    """Returns the host and port of a URL: the part that is not secret.

    Raises UsageError if the text is not an http URL, or cannot be read.
    """
    text = url.read()
    problem = url_problem(text)
    if problem is not None:
        raise UsageError(f"invalid url{url.place}: {problem}")
    parts = urlsplit(text)
    return f"{parts.hostname}{f':{parts.port}' if parts.port else ''}"
