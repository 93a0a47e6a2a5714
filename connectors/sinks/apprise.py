"""The Apprise sink: sends plain text to one of the many services that Apprise supports, selected by its URL.

Apprise reports only success or failure, and the reason in its log. A failure is always retried.
"""

import logging
from collections.abc import Sequence
from threading import Thread

from apprise import Apprise as AppriseClient
from apprise import AppriseAsset, LogCapture, NotifyFormat, NotifyType

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.evidence_format import other_alert_lines, visible
from connectors.sinks.http.response_outcome import DEADLINE_EXCEEDED, excerpt
from connectors.sinks.links import MessageLinks
from connectors.sinks.sequential_send import send_in_order
from connectors.sinks.sink import Delivered, DeliveryOptions, Outcome, Retry
from connectors.sinks.sink_config import Apprise
from rules.alert import AlertState
from rules.finding import Severity
from rules.formatting import alert_text
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

_MAX_TITLE = 200
_MAX_BODY = 3_000
_MAX_OTHER_ALERTS = 10
_TYPE = {Severity.CRITICAL: NotifyType.FAILURE, Severity.WARNING: NotifyType.WARNING, Severity.INFO: NotifyType.INFO}
_ASSET = AppriseAsset(app_id="kraftwatch", http_redirects=False, async_mode=False)

# Its warnings become the reason of the outcome, without secrets.
logging.getLogger("apprise").propagate = False


class AppriseSink:
    """Sends to one service."""

    def __init__(self, config: Apprise, *, options: DeliveryOptions, links: MessageLinks) -> None:
        """Reads the URL once, so that an invalid one is reported at start-up.

        Raises:
            UsageError: the URL cannot be read, or Apprise does not support it.
        """
        self.options = options
        self._config = config
        self._links = links
        self._thread: Thread | None = None
        _client(config.url)

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        """Sends each notification."""
        return send_in_order(
            notifications,
            lambda notification: (title(notification), body(notification, self._links)),
            self._send_one,
            deadline_s=deadline_s,
        )

    def _send_one(self, notification: Notification, text: tuple[str, str], left_s: float) -> Outcome:
        if self._thread is not None and self._thread.is_alive():
            return DEADLINE_EXCEEDED
        try:
            client = _client(self._config.url)
        except UsageError as problem:
            return Retry(reason=str(problem))
        for server in client:
            server.socket_connect_timeout = server.socket_read_timeout = left_s
        outcomes: list[Outcome] = []
        # A service's library may wait for anything: its own timeouts do not bound the whole call.
        self._thread = Thread(target=lambda: outcomes.append(self._notify(client, notification, text)), daemon=True)
        self._thread.start()
        self._thread.join(left_s)
        return outcomes[0] if outcomes else DEADLINE_EXCEEDED

    def _notify(self, client: AppriseClient, notification: Notification, text: tuple[str, str]) -> Outcome:
        with LogCapture(level=logging.WARNING, name="apprise") as log:  # type: ignore[no-untyped-call]
            try:
                accepted = client.notify(
                    title=text[0],
                    body=text[1],
                    notify_type=notify_type(notification),
                    body_format=NotifyFormat.TEXT,
                )
            except Exception as problem:  # noqa: BLE001 - a hundred services, each with its own library
                return Retry(reason=f"the service failed: {type(problem).__name__}")
            reason = excerpt(log.getvalue(), self._config.url.read()) if log else ""
        return Delivered() if accepted else Retry(reason=reason or "the service rejected the message without a reason")


def notify_type(notification: Notification) -> NotifyType:
    """Returns Apprise's type for the state and severity."""
    return NotifyType.SUCCESS if notification.state is AlertState.RESOLVED else _TYPE[notification.severity]


def title(notification: Notification) -> str:
    """Returns the title, one line."""
    word = "RESOLVED" if notification.state is AlertState.RESOLVED else notification.severity.upper()
    return visible(f"{word} {notification.root.cluster}: {notification.summary}")[:_MAX_TITLE]


def body(notification: Notification, links: MessageLinks) -> str:
    """Returns the full text of the root cause, one line for each other alert, and the links."""
    root = notification.root
    lines = other_alert_lines(notification.alerts[1:], root.cluster, _MAX_OTHER_ALERTS)
    urls = [url for url in (links.rule(root.rule), links.cluster(root.cluster)) if url is not None]
    after = "\n".join([*(["Also in this incident"] if lines else []), *lines, *urls])
    before = visible(alert_text(root), keep="\n")
    if len(before) > _MAX_BODY:
        before = f"{before[: _MAX_BODY - 1]}…"
    return f"{before}\n{visible(after, keep=chr(10))[:_MAX_BODY]}".strip()


def schema_of(url: Secret) -> str:
    """Returns the service's name in the URL: everything else in it may be secret.

    Raises:
        UsageError: the URL cannot be read.
    """
    return url.read().partition(":")[0][:20]


def _client(url: Secret) -> AppriseClient:
    """Returns a new client for each notification: Apprise delays consecutive messages of one client."""
    client = AppriseClient(asset=_ASSET)
    with LogCapture(level=logging.ERROR, name="apprise"):  # type: ignore[no-untyped-call]
        supported = client.add(url.read())
    if not supported:
        raise UsageError(f"Apprise does not know the URL that begins with {schema_of(url)!r}: see `apprise --details`")
    return client
