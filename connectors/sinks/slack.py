"""The Slack sinks: one message for each incident, kept up to date, with its changes as replies in its thread.

With a bot token (scope `chat:write`, and the app invited to the channel) the message is posted when an incident
begins, and edited afterwards. Slack sends no notification for an edit, so changes, repetitions and the end are also
replies in the thread; a reply is also shown in the channel if the incident got worse, if another alert that is as
severe joined it, if what to do has changed, if it is repeated, or if its acknowledgement or a silence of it ended. With
an app-level token the message has buttons (`slack_buttons`). With an incoming webhook nothing can be edited: each
notification is a new message.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, TypeAdapter, model_validator

from connectors.errors import KraftwatchError
from connectors.settings.secret import Secret, excerpt
from connectors.settings.sections import ValidUrl, placed_error, url_problem
from connectors.sinks.http_request import HttpResponse, outcome_of_response, post
from connectors.sinks.sink import Delivered, Outcome, Rejected, Responses, Retry, SerialSink, Sink
from connectors.sinks.sink_config import TIMEOUT_S, MessageLinks, PeopleSection, SinkMemory, SinkServer, url_server
from connectors.sinks.slack_blocks import SlackDocument, silenced_reply, slack_document
from connectors.sinks.slack_buttons import Silenced, SlackButtons
from connectors.sinks.webhook import host_of
from connectors.store.store_place import StorePlace
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason

_Json: TypeAlias = Mapping[str, Any]
_API_URL = "https://slack.com/api/"
_ANSWER_BYTES = 1 << 20
"""Slack answers with the whole message, in JSON."""
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
    "channel_is_archived": "the channel is archived",
    "no_service": "the webhook was removed or disabled",
    "no_active_hooks": "the webhook was removed or disabled",
    "invalid_token": "the webhook was removed or disabled",
    "no_team": "the workspace does not exist",
    "team_disabled": "the workspace is disabled",
    "user_not_found": "the user who receives the messages does not exist",
    "action_prohibited": "an administrator of the workspace has prohibited it",
    "posting_to_general_channel_denied": "posting to #general is restricted",
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
"""https://docs.slack.dev/reference/methods/chat.postMessage#errors, and before them those of incoming webhooks:
https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors"""


class SlackSection(PeopleSection):
    """Slack: a bot token and a channel, or an incoming webhook, which cannot edit messages or use threads."""

    form = "slack:WEBHOOK-URL"
    text_key = "webhook_url"
    ca_file: ClassVar[Path | None] = None
    socket_port: ClassVar[int] = 443
    """To another one the SDK would connect without TLS."""

    token: SecretStr | None = None
    """A bot token (`xoxb-…`) with the scope `chat:write`; invite the app to the channel."""
    token_file: Path | None = None
    app_token: SecretStr | None = None
    """An app-level token (`xapp-…`) with the scope `connections:write`: messages have the buttons *Acknowledge* and
    *Silence 1 h*. No other job may use the app."""
    app_token_file: Path | None = None
    channel: str | None = Field(default=None, pattern=r"^(#[^\s<>&|]{1,80}|[CDG][A-Z0-9]{8,})$")
    """`#name` (in quotation marks: # begins a YAML comment), or the channel's id, which a rename does not change."""
    webhook_url: SecretStr | None = None
    """https://hooks.slack.com/services/…, instead of a token and a channel."""
    webhook_url_file: Path | None = None
    api_url: Annotated[str, Field(pattern=r"^https://[^\s]+/$"), ValidUrl] = _API_URL
    """Slack's API; GovSlack has another address."""

    @model_validator(mode="after")
    def _bot_or_webhook(self) -> "SlackSection":
        bot = self.secret("token") is not None
        if bot and self.secret("webhook_url") is not None:
            raise ValueError("give a token and a channel, or a webhook_url, not both")
        if not bot:
            self.required_secret("webhook_url")
        if not bot and self.secret("app_token") is not None:
            raise ValueError("app_token needs a token and a channel: the messages of a webhook have no buttons")
        if bot != (self.channel is not None):
            raise ValueError("token and channel go together; a webhook has its channel in Slack")
        problem = None if self.webhook_url is None else url_problem(self.webhook_url.get_secret_value())
        if problem is not None:
            raise placed_error(problem, "webhook_url")
        return self

    def default_name(self) -> str:
        """Returns the name in the ledger."""
        return "slack" if self.channel is None else f"slack:{self.channel}"

    def open(self, links: MessageLinks, store: StorePlace) -> Sink:
        """Opens the sink."""
        return SlackWebhookSink(self, links) if self.channel is None else SlackSink(self, links, store)

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


class SlackFormat(SerialSink[SlackDocument]):
    """What both ways to Slack send."""

    def __init__(self, section: SlackSection, links: MessageLinks) -> None:
        edits = section.channel is not None
        super().__init__(replace(section.options, shows_acknowledgements=edits, shows_ended_silences=edits))
        self._section, self._links = section, links

    def _document(self, notification: Notification, sent_at_ms: Millis) -> SlackDocument:
        return slack_document(notification, self._links, with_buttons=self._section.secret("app_token") is not None)


class SlackSink(SlackFormat):
    """A bot in one channel: it updates or posts the message of each notification's incident."""

    def __init__(self, section: SlackSection, links: MessageLinks, store: StorePlace) -> None:
        """Reads the token once, so that a missing one is reported at start-up."""
        super().__init__(section, links)
        self._token = section.required_secret("token")
        lost = "incidents that are firing are posted again"
        self._messages = SinkMemory(store, self.options.name, _MESSAGE, if_lost=lost)
        self._token.read()
        self._app_token = section.secret("app_token")
        self._buttons: SlackButtons | None = None
        if self._app_token is not None:
            self._app_token.read()
            self._buttons = SlackButtons(self.options.name, self._socket_url, self._say_silenced, section.ca_file)

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`: Slack says which buttons people press."""
        if self._buttons is not None:
            self._buttons.follow(responses)

    def _socket_url(self) -> str:
        """Returns the WebSocket by which Slack says which buttons people press. Raises KraftwatchError."""
        assert self._app_token is not None
        api = SlackApi(section=self._section, token=self._app_token.read(), until=time.monotonic() + TIMEOUT_S)
        url: str = api.call("apps.connections.open", {}, accepted=self._has_socket_url)["url"]
        return url

    def _say_silenced(self, channel: str, ts: str, done: Silenced) -> None:
        """Replies to a message that a person has silenced its alerts. Raises KraftwatchError."""
        api = SlackApi(section=self._section, token=self._token.read(), until=time.monotonic() + TIMEOUT_S)
        api.post({"channel": channel, "thread_ts": ts, **silenced_reply(done)})

    def _has_socket_url(self, answer: _Json, sent: _Json) -> bool:
        match answer:
            case {"url": str(url)} if url.startswith("wss://"):
                return (urlsplit(url).port or 443) == self._section.socket_port
            case _:
                return False

    def _send_one(
        self, notification: Notification, document: SlackDocument, sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        api = SlackApi(section=self._section, token=self._token.read(), until=time.monotonic() + left_s)
        try:
            self._update_or_post(api, notification, document)
        except _SlackError as error:
            return error.outcome
        return Delivered()

    def _update_or_post(self, api: "SlackApi", notification: Notification, document: SlackDocument) -> None:
        incident = notification.incident
        message = self._messages.get(incident)
        if message is not None and not _updated(api, message, document):
            message = None
        if message is None:
            response = _sent(api.post, document, channel=self._section.channel or "")
            # Stored immediately: a later failure must not post the message again.
            message = SlackMessageRecord(channel=response["channel"], ts=response["ts"], newest=notification.id)
        elif message.newest != notification.id:
            noticed = notification.reason in (NotifyReason.REPEATED, NotifyReason.FIRING, NotifyReason.UNSILENCED)
            ended = notification.reason is NotifyReason.ACKNOWLEDGED and not notification.acknowledged
            broadcast = notification.worse or noticed or ended
            api.post(
                {"channel": message.channel, "thread_ts": message.ts, "reply_broadcast": broadcast, **document.reply}
            )
        self._messages.put(incident, replace(message, newest=notification.id))


def _updated(api: "SlackApi", message: SlackMessageRecord, document: SlackDocument) -> bool:
    """Edits the message; returns whether it can still be edited."""
    try:
        _sent(api.update, document, channel=message.channel, ts=message.ts)
    except _SlackError as error:
        if error.code in _NOT_EDITABLE:
            return False
        raise
    return True


def _sent(call: Callable[[_Json], _Json], document: SlackDocument, **place: str) -> _Json:
    """Sends the message; its headline alone, if Slack rejects the blocks."""
    try:
        return call({**place, **document.message})
    except _SlackError as error:
        if error.code not in _INVALID_MESSAGE:
            raise
        return call({**place, **document.headline})


class SlackWebhookSink(SlackFormat):
    """An incoming webhook: it can only post."""

    def __init__(self, section: SlackSection, links: MessageLinks) -> None:
        """Reads the URL once, so that an invalid one is reported at start-up."""
        super().__init__(section, links)
        self._url = section.required_secret("webhook_url")
        host_of(self._url)

    def _send_one(
        self, notification: Notification, document: SlackDocument, sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        until = time.monotonic() + left_s
        outcome = self._post(document.message, until)
        if isinstance(outcome, Rejected):
            return self._post(document.headline, until)
        return outcome

    def _post(self, body: dict[str, Any], until: float) -> Outcome:
        url = self._url.read()
        left_s = max(0.0, until - time.monotonic())
        response = post(url, json.dumps(body).encode(), seconds=left_s, ca_file=self._section.ca_file)
        outcome = outcome_of_response(response, url, [url], server="Slack", accepted=_is_ok)
        if isinstance(response, HttpResponse) and (meaning := _MEANING.get(response.text.strip())):
            return Retry(reason=f"Slack error: {meaning}")
        return outcome


class _SlackError(KraftwatchError):
    """Slack responded with an error, which may have a code, or not at all."""

    def __init__(self, outcome: Rejected | Retry, code: str | None = None) -> None:
        super().__init__(outcome.reason)
        self.outcome, self.code = outcome, code


def _is_message(answer: _Json, sent: _Json) -> bool:
    """Returns whether an answer says where the posted or edited message is."""
    match answer:
        case {"channel": str(), "ts": str(ts)}:
            return bool(ts == sent.get("ts", ts))
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackApi:
    """Slack's API for one token, until a deadline."""

    section: SlackSection
    token: str
    until: float
    """By `time.monotonic`."""

    def post(self, message: _Json) -> _Json:
        """Posts a message or a reply; returns where it is. Raises _SlackError."""
        return self.call("chat.postMessage", message)

    def update(self, message: _Json) -> _Json:
        """Edits a message; returns where it is. Raises _SlackError."""
        return self.call("chat.update", message)

    def call(self, method: str, arguments: _Json, *, accepted: Callable[[_Json, _Json], bool] = _is_message) -> _Json:
        """Returns the answer to a method.

        `accepted`: whether an answer to these arguments is that of the method. Raises _SlackError.
        """

        def is_slacks(response: HttpResponse) -> bool:
            answer = response.json
            match answer:
                case {"ok": bool(ok)} if response.status == 200:
                    return not ok or accepted(answer, arguments)
                case _:
                    return False

        response = post(
            self.section.api_url + method,
            json.dumps(arguments).encode(),
            seconds=self.until - time.monotonic(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json; charset=utf-8"},
            ca_file=self.section.ca_file,
            answer_bytes=_ANSWER_BYTES,
        )
        outcome = outcome_of_response(response, "", [self.token], server="Slack", accepted=is_slacks)
        if not isinstance(outcome, Delivered):
            raise _SlackError(outcome)
        assert isinstance(response, HttpResponse)
        answer: _Json = response.json
        if not answer["ok"]:
            code = str(answer.get("error") or "no error code")
            raise _SlackError(_outcome_of_code(code, self.token), code)
        return answer


def _is_ok(response: HttpResponse) -> bool:
    """Returns whether a response is that of an incoming webhook that has posted the message."""
    return response.status == 200 and response.text.strip() == "ok"


def _outcome_of_code(code: str, token: str) -> Rejected | Retry:
    meaning = _MEANING.get(code) or excerpt(code.replace("_", " "), token)
    if code in _INVALID_MESSAGE:
        return Rejected(reason=f"Slack rejected the message: {meaning}")
    return Retry(reason=f"Slack error: {meaning}")
