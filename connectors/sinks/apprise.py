"""The Apprise sink: sends plain text to one of the many services that Apprise supports, selected by its URL.

Apprise reports only success or failure, and the reason in its log. A failure is always retried.
"""

import logging
import re
import smtplib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import requests

from connectors.errors import UsageError
from connectors.process.extras import Extra, require
from connectors.settings.secret import Secret, excerpt
from connectors.settings.sections import ConfiguredSecret
from connectors.sinks.bounded_http import Bound, BoundedAdapter, bounded
from connectors.sinks.bounded_mail import BoundedSmtp, BoundedSmtpTls
from connectors.sinks.http_request import LATE, HttpResponse, outcome_of_response, url_secrets
from connectors.sinks.notification_text import alert_text, other_alert_lines
from connectors.sinks.sink import Delivered, Outcome, Retry, SerialSink
from connectors.sinks.sink_config import MessageLinks, PeopleSection
from connectors.store.store_place import StorePlace
from rules.alert import AlertState
from rules.finding import Severity
from rules.formatting import shortened, visible
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

if TYPE_CHECKING:
    from apprise import Apprise as AppriseClient

_MAX_TITLE = 200
_MAX_BODY = 3_000
_MAX_OTHER_ALERTS = 10
_TYPES = {Severity.CRITICAL: "failure", Severity.WARNING: "warning", Severity.INFO: "info"}
"""Apprise's types of a notification that is firing."""
_SCHEMA = re.compile(r"([A-Za-z0-9+.-]{1,20})://")

_WARNINGS: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


class _Collect(logging.Handler):
    """Keeps a warning for the call that it is about: another one's may be about another secret."""

    def emit(self, record: logging.LogRecord) -> None:
        if (warnings := _WARNINGS.get()) is not None:
            warnings.append(record.getMessage())


# Its warnings become the reason of the outcome, without secrets.
logging.getLogger("apprise").propagate = False
logging.getLogger("apprise").addHandler(_Collect(logging.WARNING))


class AppriseSection(PeopleSection):
    """A service that Apprise supports: mail, Telegram, Microsoft Teams, Matrix, …"""

    form = "apprise:URL"
    text_key = "url"
    expected = "the recipients of {name} get two messages: firing and resolved"

    url: ConfiguredSecret
    """An Apprise URL such as `tgram://TOKEN/CHAT`; only its scheme is ever printed."""

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return f"apprise:{_schema_of(self.url)}"

    def open(self, links: MessageLinks, store: StorePlace) -> "AppriseSink":
        """Opens the sink."""
        return AppriseSink(self, links)


class AppriseSink(SerialSink[tuple[str, str]]):
    """Sends to one service."""

    def __init__(self, section: AppriseSection, links: MessageLinks) -> None:
        """Reads the URL once, so that an invalid one is reported at start-up, as a missing Apprise is."""
        super().__init__(section.options)
        require(Extra.APPRISE, f"the sink {self.options.name}")
        self._url = section.url
        self._links = links
        _client(self._url)

    def _document(self, notification: Notification, sent_at_ms: Millis) -> tuple[str, str]:
        return title(notification), body(notification, self._links)

    def _send_one(
        self, notification: Notification, document: tuple[str, str], sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        from apprise import NotifyFormat, NotifyType, OverflowMode

        url = self._url.read()
        client = _client(self._url)
        for server in client:
            # For what has other connections than those that `bounded` ends: the longest wait for the server.
            server.socket_connect_timeout = server.socket_read_timeout = left_s
            # Parameters of its URL with which a failure, or another answer than that to the message, is a success.
            server.optional = server.redirects = False
            # The dispatcher retries.
            server.retry = 0
            if server.overflow_mode is OverflowMode.UPSTREAM:
                # A service refuses a message that is too long, again and again.
                server.overflow_mode = OverflowMode.TRUNCATE
        resolved = notification.state is AlertState.RESOLVED
        kind = NotifyType.SUCCESS if resolved else NotifyType(_TYPES[notification.severity])

        with _logged() as warnings, bounded(left_s) as bound:
            try:
                accepted = client.notify(
                    title=document[0],
                    body=document[1],
                    notify_type=kind,
                    body_format=NotifyFormat.TEXT,
                )
            except Exception as problem:  # noqa: BLE001 - a hundred services, each with its own library
                return Retry(reason=f"the service failed: {type(problem).__name__}")
            if accepted:
                return _outcome_of_answers(bound, url)
            if bound.over:
                return Retry(reason=LATE)
        reason = excerpt("; ".join(warnings), *url_secrets(url))
        return Retry(reason=reason or "the service rejected the message without a reason")


def _outcome_of_answers(bound: Bound, url: str) -> Outcome:
    """Returns whether what Apprise takes for accepted is: it looks at the status of most services alone."""
    for status, headers, body in bound.answers:
        response = HttpResponse(status=status, headers=headers, body=body)
        if response.accepts and response.denial is not None:
            return outcome_of_response(response, url, [])
    return Delivered()


def title(notification: Notification) -> str:
    """Returns the title, one line."""
    word = "RESOLVED" if notification.state is AlertState.RESOLVED else notification.severity.upper()
    return visible(f"{word} {notification.root.cluster}: {notification.summary}")[:_MAX_TITLE]


def body(notification: Notification, links: MessageLinks) -> str:
    """Returns the full text of the root cause, one line for each other alert, and the links."""
    root = notification.root
    lines = other_alert_lines(notification.alerts[1:], root.cluster, _MAX_OTHER_ALERTS)
    after = "\n".join([*(["Also in this incident"] if lines else []), *lines, *(url for url, _ in links.of(root))])
    return f"{shortened(alert_text(root), _MAX_BODY)}\n{after[:_MAX_BODY]}".strip()


def _schema_of(url: Secret) -> str:
    """Returns the service's name in the URL: everything else in it may be secret."""
    found = _SCHEMA.match(url.read())
    if found is None:
        # It may be a token alone.
        raise UsageError(f"url{url.place} is not an Apprise URL: write SCHEMA://…, as `apprise --details` lists it")
    return found[1]


def _client(url: Secret) -> "AppriseClient":
    """Returns a new client for each notification: Apprise delays consecutive messages of one client.

    Raises:
        UsageError: Apprise does not accept the URL.
    """
    from apprise import Apprise as AppriseClient
    from apprise import AppriseAsset

    # A service's class calls `requests.post`, which has no setting for this. Outside of `bounded` nothing differs.
    requests.sessions.HTTPAdapter = BoundedAdapter
    # Mail is sent by these classes.
    smtplib.SMTP, smtplib.SMTP_SSL = BoundedSmtp, BoundedSmtpTls  # type: ignore[misc]
    client = AppriseClient(asset=AppriseAsset(app_id="kraftwatch", http_redirects=False, async_mode=False))
    with _logged():
        try:
            supported = client.add(url.read())
        except UsageError:
            raise
        except Exception:  # noqa: BLE001 - a hundred services, each of which parses its URL
            supported = False
    if not supported:
        raise UsageError(
            f"Apprise does not accept the URL that begins with {_schema_of(url)!r}: see `apprise --details`"
        )
    return client


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Collects the warnings that Apprise logs inside, also in its own threads: it copies the context to them."""
    warnings: list[str] = []
    before = _WARNINGS.set(warnings)
    try:
        yield warnings
    finally:
        _WARNINGS.reset(before)
