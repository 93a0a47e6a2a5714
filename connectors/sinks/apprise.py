"""The Apprise sink: one of the many services that Apprise knows, by its URL, as plain text.

Apprise says that it could not, and in its log why; what it could not is always tried again.
"""

import logging
from collections.abc import Sequence
from threading import Thread

from apprise import Apprise as Sender
from apprise import AppriseAsset, LogCapture, NotifyFormat, NotifyType

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.evidence_format import beside, visible
from connectors.sinks.http.response_outcome import TOO_LATE, excerpt
from connectors.sinks.links import Links
from connectors.sinks.sequential_send import in_turn
from connectors.sinks.sink import Delivered, Outcome, Retry, Terms
from connectors.sinks.sink_config import Apprise
from rules.alert import AlertState
from rules.finding import Severity
from rules.formatting import rendered
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice

_TITLE = 200
_BODY = 3_000
_OTHERS = 10
_TYPE = {Severity.CRITICAL: NotifyType.FAILURE, Severity.WARNING: NotifyType.WARNING, Severity.INFO: NotifyType.INFO}
_ASSET = AppriseAsset(app_id="kraftwatch", http_redirects=False, async_mode=False)

# What it warns of is our outcome's reason, without its secrets.
logging.getLogger("apprise").propagate = False


class AppriseSink:
    """One service."""

    def __init__(self, place: Apprise, *, terms: Terms, links: Links) -> None:
        """Read the URL once, so that one that cannot be is told at the start.

        Raises:
            UsageError: it cannot be read, or Apprise does not know it.
        """
        self.terms = terms
        self._place = place
        self._links = links
        self._sending: Thread | None = None
        _sender(place.url)

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Send each notice."""
        return in_turn(notices, self._told, deadline_s=deadline_s)

    def _told(self, notice: Notice, left_s: float) -> Outcome:
        if self._sending is not None and self._sending.is_alive():
            return TOO_LATE
        try:
            sender = _sender(self._place.url)
        except UsageError as problem:
            return Retry(reason=str(problem))
        for server in sender:
            server.socket_connect_timeout = server.socket_read_timeout = left_s
        answers: list[Outcome] = []
        # What a service's library waits for is not known here: no timeout of it is the deadline.
        self._sending = Thread(target=lambda: answers.append(self._send(sender, notice)), daemon=True)
        self._sending.start()
        self._sending.join(left_s)
        return answers[0] if answers else TOO_LATE

    def _send(self, sender: Sender, notice: Notice) -> Outcome:
        with LogCapture(level=logging.WARNING, name="apprise") as said:  # type: ignore[no-untyped-call]
            try:
                sent = sender.notify(
                    title=title(notice),
                    body=body(notice, self._links),
                    notify_type=kind(notice),
                    body_format=NotifyFormat.TEXT,
                )
            except Exception as problem:  # noqa: BLE001 - a hundred services, each with a library of its own
                return Retry(reason=f"the service failed: {type(problem).__name__}")
            why = excerpt(said.getvalue(), self._place.url.read()) if said else ""
        return Delivered() if sent else Retry(reason=why or "the service did not take it, and says no more")


def kind(notice: Notice) -> NotifyType:
    """Apprise's word for how bad it is."""
    return NotifyType.SUCCESS if notice.state is AlertState.RESOLVED else _TYPE[notice.severity]


def title(notice: Notice) -> str:
    """One line."""
    word = "RESOLVED" if notice.state is AlertState.RESOLVED else notice.severity.upper()
    return visible(f"{word} {notice.root.cluster}: {notice.root.summary}")[:_TITLE]


def body(notice: Notice, links: Links) -> str:
    """The root cause in full, the others by a line each, the links."""
    root = notice.root
    lines = beside(notice.alerts[1:], root.cluster, _OTHERS)
    urls = [url for url in (links.rule(root.rule), links.cluster(root.cluster)) if url is not None]
    after = "\n".join([*(["With it"] if lines else []), *lines, *urls])
    before = visible(rendered(root), keep="\n")
    if len(before) > _BODY:
        before = f"{before[: _BODY - 1]}…"
    return f"{before}\n{visible(after, keep=chr(10))[:_BODY]}".strip()


def schema_of(url: Secret) -> str:
    """The service's name in the URL: all else in it may be a secret.

    Raises:
        UsageError: the URL cannot be read.
    """
    return url.read().partition(":")[0][:20]


def _sender(url: Secret) -> Sender:
    """A new one for each notice: Apprise spaces out what one and the same sends."""
    sender = Sender(asset=_ASSET)
    with LogCapture(level=logging.ERROR, name="apprise"):  # type: ignore[no-untyped-call]
        known = sender.add(url.read())
    if not known:
        raise UsageError(f"Apprise does not know the URL that begins with {schema_of(url)!r}: see `apprise --details`")
    return sender
