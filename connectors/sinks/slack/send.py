"""The Slack sinks: one message for each incident, kept up to date, with its changes as replies in its thread.

With a bot token (scope `chat:write`, and the app invited to the channel) the message is posted when an incident
begins, and edited afterwards. Slack sends no notification for an edit, so changes, repetitions and the end are also
replies in the thread; a reply is also shown in the channel if the incident got worse, if another alert that is as
severe joined it, if what to do has changed, if it is repeated, or if its acknowledgement or a silence of it ended. With
an app-level token the message has buttons (`buttons`). With an incoming webhook nothing can be edited: each
notification is a new message.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from connectors.errors import KraftwatchError
from connectors.settings.secret import Secret, excerpt
from connectors.sinks.http_request import HttpResponse, outcome_of_response, post
from connectors.sinks.sink import Delivered, DeliveryOptions, Outcome, Rejected, Responses, Retry, SerialSink
from connectors.sinks.sink_config import TIMEOUT_S, MessageLinks, SinkMemory
from connectors.sinks.slack.blocks import SlackDocument, silenced_reply, slack_document
from connectors.sinks.slack.buttons import Silenced, SlackButtons
from connectors.sinks.webhook import host_of
from connectors.store.store_place import StorePlace
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason

_Json: TypeAlias = Mapping[str, Any]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackPlace:
    """Where a bot posts, and with what."""

    channel: str
    token: Secret
    app_token: Secret | None
    """Messages have buttons with it."""
    api_url: str
    ca_file: Path | None
    socket_port: int
    """Of Slack's WebSockets."""


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

    def __init__(self, options: DeliveryOptions, links: MessageLinks, *, with_buttons: bool = False) -> None:
        super().__init__(options)
        self._links, self._with_buttons = links, with_buttons

    def _document(self, notification: Notification, sent_at_ms: Millis) -> SlackDocument:
        return slack_document(notification, self._links, with_buttons=self._with_buttons)


class SlackSink(SlackFormat):
    """A bot in one channel: it updates or posts the message of each notification's incident."""

    def __init__(self, options: DeliveryOptions, links: MessageLinks, place: SlackPlace, store: StorePlace) -> None:
        """Reads the tokens once, so that a missing one is reported at start-up."""
        shown = replace(options, shows_acknowledgements=True, shows_ended_silences=True)
        super().__init__(shown, links, with_buttons=place.app_token is not None)
        self._place = place
        lost = "incidents that are firing are posted again"
        self._messages = SinkMemory(store, self.options.name, _MESSAGE, if_lost=lost)
        place.token.read()
        self._buttons: SlackButtons | None = None
        if place.app_token is not None:
            place.app_token.read()
            self._buttons = SlackButtons(self.options.name, self._socket_url, self._say_silenced, place.ca_file)

    def follow(self, responses: Responses | None) -> None:
        """As `FollowedSink.follow`: Slack says which buttons people press."""
        if self._buttons is not None:
            self._buttons.follow(responses)

    def _socket_url(self) -> str:
        """Returns the WebSocket by which Slack says which buttons people press. Raises KraftwatchError."""
        assert self._place.app_token is not None
        api = SlackApi(place=self._place, token=self._place.app_token.read(), until=time.monotonic() + TIMEOUT_S)
        url: str = api.call("apps.connections.open", {}, accepted=self._has_socket_url)["url"]
        return url

    def _say_silenced(self, channel: str, ts: str, done: Silenced) -> None:
        """Replies to a message that a person has silenced its alerts. Raises KraftwatchError."""
        api = SlackApi(place=self._place, token=self._place.token.read(), until=time.monotonic() + TIMEOUT_S)
        api.post({"channel": channel, "thread_ts": ts, **silenced_reply(done)})

    def _has_socket_url(self, answer: _Json, sent: _Json) -> bool:
        match answer:
            case {"url": str(url)} if url.startswith("wss://"):
                return (urlsplit(url).port or 443) == self._place.socket_port
            case _:
                return False

    def _send_one(
        self, notification: Notification, document: SlackDocument, sent_at_ms: Millis, left_s: float
    ) -> Outcome:
        api = SlackApi(place=self._place, token=self._place.token.read(), until=time.monotonic() + left_s)
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
            response = _sent(api.post, document, channel=self._place.channel)
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

    def __init__(self, options: DeliveryOptions, links: MessageLinks, url: Secret, ca_file: Path | None) -> None:
        """Reads the URL once, so that an invalid one is reported at start-up."""
        super().__init__(options, links)
        self._url, self._ca_file = url, ca_file
        host_of(url)

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
        response = post(url, json.dumps(body).encode(), seconds=left_s, ca_file=self._ca_file)
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

    place: SlackPlace
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
            self.place.api_url + method,
            json.dumps(arguments).encode(),
            seconds=self.until - time.monotonic(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json; charset=utf-8"},
            ca_file=self.place.ca_file,
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
