"""The Slack sinks: one message for each incident, kept up to date, with its changes as replies in its thread.

With a bot token (scope `chat:write`, and the app invited to the channel) the message is posted when an incident
begins, and edited afterwards. Slack sends no notification for an edit, so changes, repetitions and the end are also
replies in the thread; a reply is also shown in the channel if the incident got worse, if another alert that is as
severe joined it, or if it is repeated. With an incoming webhook nothing can be edited: each notification is a new
message.
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from pydantic import Field, SecretStr, TypeAdapter, model_validator

from connectors.secret import Secret
from connectors.sinks.http_request import excerpt, outcome_of_response, post
from connectors.sinks.sink import Delivered, DeliveryOptions, Outcome, Rejected, Retry, SerialSink, Sink
from connectors.sinks.sink_config import MessageLinks, PeopleSection, SinkServer, SinkState, url_server
from connectors.sinks.slack_blocks import SlackDocument, slack_document
from connectors.sinks.webhook import host_of
from connectors.store.store_place import StorePlace
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason

_API_URL = "https://slack.com/api/"
_NOT_EDITABLE = {
    "message_not_found",
    "cant_update_message",
    "edit_window_closed",
    "channel_not_found",
    "is_archived",
}
"""This message can no longer be edited: a new one is posted."""
_INVALID_MESSAGE = {
    *("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text"),
    *("too_many_attachments", "invalid_attachments", "attachment_payload_limit_exceeded"),
}
"""Slack rejects the message itself."""
_MEANING = {
    "invalid_auth": "the token is invalid",
    "not_authed": "the token is invalid",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "account_inactive": "the app was removed from the workspace",
    "missing_scope": "the token lacks the scope chat:write",
    "not_in_channel": "the app is not in the channel: invite it",
    "channel_not_found": "the channel does not exist, or the app is not in it: invite it",
    "is_archived": "the channel is archived",
}
"""https://docs.slack.dev/reference/methods/chat.postMessage#errors"""


class SlackSection(PeopleSection):
    """Slack: a bot token and a channel, or an incoming webhook, which cannot edit messages or use threads."""

    form = "slack:WEBHOOK-URL"
    text_key = "webhook_url"
    ca_file: ClassVar[Path | None] = None

    token: SecretStr | None = None
    """A bot token (`xoxb-…`) with the scope `chat:write`; invite the app to the channel."""
    token_file: Path | None = None
    channel: str | None = Field(default=None, pattern=r"^(#[^\s<>&|]{1,80}|[CDG][A-Z0-9]{8,})$")
    """`#name` (in quotation marks: # begins a YAML comment), or the channel's id, which a rename does not change."""
    webhook_url: SecretStr | None = None
    """https://hooks.slack.com/services/…, instead of a token and a channel."""
    webhook_url_file: Path | None = None
    api_url: str = Field(default=_API_URL, pattern=r"^https://[^\s]+/$")
    """Slack's API; GovSlack has another address."""

    @model_validator(mode="after")
    def _bot_or_webhook(self) -> "SlackSection":
        bot = self.secret("token") is not None
        if bot and self.secret("webhook_url") is not None:
            raise ValueError("give a token and a channel, or a webhook_url, not both")
        if not bot:
            self.required_secret("webhook_url")
        if bot != (self.channel is not None):
            raise ValueError("token and channel go together; a webhook has its channel in Slack")
        return self

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return "slack" if self.channel is None else f"slack:{self.channel}"

    def open(self, options: DeliveryOptions, links: MessageLinks, store: StorePlace) -> Sink:
        """Opens the sink."""
        if self.channel is None:
            return SlackWebhookSink(self, options=options, links=links)
        return SlackSink(self, self.channel, options=options, links=links, store=store)

    def expectation(self, name: str, severity: Severity) -> str:
        """Returns what a person should see after a test."""
        if self.channel is None:
            return "the webhook's channel has two new messages: firing and resolved"
        return f"channel {self.channel} has a new message, edited to resolved"

    def servers(self) -> Sequence[SinkServer]:
        """Returns the server of the API, or of the webhook's URL."""
        url = self.required_secret("webhook_url") if self.channel is None else Secret(text=self.api_url)
        return [url_server(url, self.ca_file)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackMessageRecord:
    """The message of an incident."""

    channel: str
    ts: str
    """Slack's id of the message within the channel."""
    newest: str
    """The id of the notification that was sent last, completely."""


_MESSAGE = TypeAdapter(SlackMessageRecord)
_Call: TypeAlias = Callable[..., dict[str, Any]]
"""Calls a method of the API with the given arguments; returns its answer. Raises _SlackError if Slack refuses it."""


class SlackSink(SerialSink[SlackDocument]):
    """A bot in one channel: it updates or posts the message of each notification's incident."""

    def __init__(
        self, section: SlackSection, channel: str, *, options: DeliveryOptions, links: MessageLinks, store: StorePlace
    ) -> None:
        """Reads the token once, so that a missing one is reported at start-up."""
        super().__init__(options)
        self._section, self._channel, self._token = section, channel, section.required_secret("token")
        self._links = links
        self._messages = SinkState(store, options.name, _MESSAGE, if_lost="incidents that are firing are posted again")
        self._token.read()

    def _document(self, notification: Notification, sent_at_ms: Millis) -> SlackDocument:
        return slack_document(notification, self._links)

    def _send_one(
        self, notification: Notification, document: SlackDocument, sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        call = partial(self._call, self._token.read(), time.monotonic() + left_s)
        try:
            self._update_or_post(call, notification, document)
        except _SlackError as error:
            return error.outcome
        return Delivered()

    def _call(self, token: str, until: float, method: str, **arguments: Any) -> dict[str, Any]:
        url, headers = self._section.api_url + method, {"Authorization": f"Bearer {token}"}
        left_s = max(0.0, until - time.monotonic())
        body = json.dumps(arguments).encode()
        response = post(url, body, seconds=left_s, headers=headers, ca_file=self._section.ca_file)
        outcome = outcome_of_response(response, url, [token], server="Slack")
        if isinstance(response, Retry) or not isinstance(outcome, Delivered):
            raise _SlackError(outcome)
        answer: dict[str, Any] = json.loads(response.text)
        if not answer.get("ok"):
            code = str(answer.get("error") or "no error code")
            raise _SlackError(_outcome_of_code(code, token), code)
        return answer

    def _update_or_post(self, call: _Call, notification: Notification, document: SlackDocument) -> None:
        incident = notification.incident
        message = self._messages.get(incident)
        if message is not None and not _updated(call, message, document):
            message = None
        if message is None:
            answer = _sent(call, "chat.postMessage", document, channel=self._channel)
            # Stored immediately: a later failure must not post the message again.
            message = SlackMessageRecord(channel=answer["channel"], ts=answer["ts"], newest=notification.id)
        elif message.newest != notification.id:
            broadcast = notification.worse or notification.reason in (NotifyReason.REPEATED, NotifyReason.FIRING)
            place = {"channel": message.channel, "thread_ts": message.ts}
            call("chat.postMessage", **place, reply_broadcast=broadcast, **document.reply)
        self._messages.put(incident, replace(message, newest=notification.id))


def _updated(call: _Call, message: SlackMessageRecord, document: SlackDocument) -> bool:
    """Edits the message; returns whether it can still be edited."""
    try:
        _sent(call, "chat.update", document, channel=message.channel, ts=message.ts)
    except _SlackError as error:
        if error.code in _NOT_EDITABLE:
            return False
        raise
    return True


def _sent(call: _Call, method: str, document: SlackDocument, **place: str) -> dict[str, Any]:
    """Sends the message; its headline alone, if Slack rejects the blocks."""
    try:
        return call(method, **place, **document.message)
    except _SlackError as error:
        if error.code not in _INVALID_MESSAGE:
            raise
        return call(method, **place, **document.headline)


class _SlackError(Exception):
    def __init__(self, outcome: Outcome, code: str = "") -> None:
        super().__init__()
        self.outcome, self.code = outcome, code


def _outcome_of_code(code: str, token: str) -> Outcome:
    meaning = _MEANING.get(code) or excerpt(code.replace("_", " "), token)
    if code in _INVALID_MESSAGE:
        return Rejected(reason=f"Slack rejected the message: {meaning}")
    return Retry(reason=f"Slack error: {meaning}")


class SlackWebhookSink(SerialSink[SlackDocument]):
    """An incoming webhook: it can only post."""

    def __init__(self, section: SlackSection, *, options: DeliveryOptions, links: MessageLinks) -> None:
        """Reads the URL once, so that an invalid one is reported at start-up."""
        super().__init__(options)
        self._url, self._ca_file = section.required_secret("webhook_url"), section.ca_file
        self._links = links
        host_of(self._url)

    def _document(self, notification: Notification, sent_at_ms: Millis) -> SlackDocument:
        return slack_document(notification, self._links)

    def _send_one(
        self, notification: Notification, document: SlackDocument, sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        until = time.monotonic() + left_s
        outcome = self._post(document.message, until)
        if isinstance(outcome, Rejected):
            return self._post(document.headline, until)
        return outcome

    def _post(self, body: dict[str, Any], until: float) -> Outcome:
        url, left_s = self._url.read(), max(0.0, until - time.monotonic())
        response = post(url, json.dumps(body).encode(), seconds=left_s, ca_file=self._ca_file)
        return outcome_of_response(response, url, [url], server="Slack")
