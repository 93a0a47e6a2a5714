"""The Slack sinks: one message an incident, kept up to date, with what happens to it in its thread.

With a bot token (scope `chat:write`, and the app invited to the channel) a message is posted when an incident begins,
and edited in place from then on. An edit notifies nobody, so news, repetitions and the end are replies in its thread,
and what got worse or still stands is shown in the channel as well. With an incoming webhook nothing can be edited:
each notice is a message of its own.
"""

import hashlib
import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.request import Request

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from connectors.errors import UsageError
from connectors.sinks import slack_blocks
from connectors.sinks.http.request import post, submitted
from connectors.sinks.http.response_outcome import excerpt, outcome
from connectors.sinks.links import Links
from connectors.sinks.sequential_send import in_turn
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Terms
from connectors.sinks.sink_config import SlackBot, SlackWebhook
from connectors.sinks.slack_message_store import Posted, Posting
from connectors.sinks.webhook import host_of
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import WEIGHT, Notice, NotifyReason

_QUIET = logging.getLogger("kraftwatch.slack-sdk")
"""For the SDK, which logs what it sends and each failure: our own outcome says it once, without secrets."""
_QUIET.addHandler(logging.NullHandler())
_QUIET.setLevel(logging.CRITICAL)
_QUIET.propagate = False

_GONE = {"message_not_found", "cant_update_message", "edit_window_closed", "channel_not_found", "is_archived"}
"""This message cannot be edited any more: a new one is posted."""
_UNFIT = {
    *("invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text"),
    *("too_many_attachments", "invalid_attachments", "attachment_payload_limit_exceeded"),
}
"""The message itself is refused."""
_MEANING = {
    "invalid_auth": "the token is not accepted",
    "not_authed": "the token is not accepted",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "account_inactive": "the app was removed from the workspace",
    "missing_scope": "the token lacks the scope chat:write",
    "not_in_channel": "the app is not in the channel: invite it there",
    "channel_not_found": "there is no such channel, or the app is not in it: invite it there",
    "is_archived": "the channel is archived",
}
"""https://docs.slack.dev/reference/methods/chat.postMessage#errors"""


class SlackSink:
    """A bot in one channel."""

    def __init__(self, place: SlackBot, *, terms: Terms, links: Links, memory: Path) -> None:
        """Read the token once, so that one that is not there is told at the start.

        Raises:
            UsageError: it cannot be read.
        """
        self.terms = terms
        self._place = place
        self._links = links
        self._posted = Posted(memory, terms.name)
        place.token.read()

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Bring the message of each notice's incident up to date, or post it."""
        return in_turn(notices, self._told, deadline_s=deadline_s)

    def _told(self, notice: Notice, left_s: float) -> Outcome:
        try:
            token = self._place.token.read()
        except UsageError as problem:
            return Retry(reason=str(problem))
        slack = _Client(token, self._place, left_s)
        try:
            self._tell(slack, notice)
        except _NoAnswer as silence:
            return silence.outcome
        except SlackApiError as refusal:
            return _meaning(refusal, token)
        return Delivered()

    def _tell(self, slack: "_Client", notice: Notice) -> None:
        known = self._posted.find(notice.incident)
        now = _digest(notice)
        if known is not None:
            known = self._updated(slack, known, notice)
        if known is None:
            known = self._first(slack, notice, now)
        elif known.told != now or notice.reason is NotifyReason.REPEATED:
            worse = notice.firing and WEIGHT[notice.severity] > WEIGHT[Severity(known.severity)]
            shown = bool(worse) or notice.reason in (NotifyReason.REPEATED, NotifyReason.FIRING)
            slack.chat_postMessage(
                channel=known.channel, thread_ts=known.ts, reply_broadcast=shown, **slack_blocks.reply(notice)
            )
        severity = notice.severity.value
        self._posted.note(notice.incident, Posting(channel=known.channel, ts=known.ts, severity=severity, told=now))

    def _first(self, slack: "_Client", notice: Notice, told: str) -> Posting:
        try:
            answer = slack.chat_postMessage(channel=self._place.channel, **self._body(notice))
        except SlackApiError as refusal:
            if _code(refusal) not in _UNFIT:
                raise
            answer = slack.chat_postMessage(channel=self._place.channel, **slack_blocks.plain(notice, self._links))
        # Noted at once: what fails after this must not post it a second time.
        posting = Posting(channel=answer["channel"], ts=answer["ts"], severity=notice.severity.value, told=told)
        self._posted.note(notice.incident, posting)
        return posting

    def _updated(self, slack: "_Client", known: Posting, notice: Notice) -> Posting | None:
        """None where there is nothing left to update."""
        try:
            slack.chat_update(channel=known.channel, ts=known.ts, **self._body(notice))
        except SlackApiError as refusal:
            if _code(refusal) in _GONE:
                return None
            if _code(refusal) not in _UNFIT:
                raise
            slack.chat_update(channel=known.channel, ts=known.ts, **slack_blocks.plain(notice, self._links))
        return known

    def _body(self, notice: Notice) -> dict[str, Any]:
        return slack_blocks.message(notice, self._links).body()


class SlackWebhookSink:
    """An incoming webhook: it posts, and that is all it can do."""

    def __init__(self, place: SlackWebhook, *, terms: Terms, links: Links) -> None:
        """Read the address once, so that one that is not there is told at the start.

        Raises:
            UsageError: it cannot be read, or is none.
        """
        self.terms = terms
        self._place = place
        self._links = links
        host_of(place.url)

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Post each notice."""
        return in_turn(notices, self._told, deadline_s=deadline_s)

    def _told(self, notice: Notice, left_s: float) -> Outcome:
        until = time.monotonic() + left_s
        told = self._post(slack_blocks.message(notice, self._links).body(), until)
        if isinstance(told, Rejected):
            return self._post(slack_blocks.plain(notice, self._links), until)
        return told

    def _post(self, body: dict[str, Any], until: float) -> Outcome:
        try:
            url = self._place.url.read()
        except UsageError as problem:
            return Retry(reason=str(problem))
        return submitted(
            url,
            json.dumps(body).encode(),
            {"Content-Type": "application/json", "User-Agent": "kraftwatch"},
            seconds=max(0.0, until - time.monotonic()),
            ca_file=self._place.ca_file,
            secrets=[url],
        )


class _NoAnswer(Exception):
    """Nothing that Slack said."""

    def __init__(self, outcome: Retry) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class _Client(WebClient):
    """Slack's client for one notice, with our own transport below it: see `connectors.sinks.http.request`."""

    def __init__(self, token: str, place: SlackBot, seconds: float) -> None:
        super().__init__(token=token, base_url=place.api_url, logger=_QUIET, retry_handlers=[])
        self._until = time.monotonic() + seconds
        self._ca_file = place.ca_file

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        body = req.data if isinstance(req.data, bytes) else b""
        left_s = max(0.0, self._until - time.monotonic())
        answer = post(url, body, dict(req.header_items()), seconds=left_s, ca_file=self._ca_file)
        if isinstance(answer, Retry):
            raise _NoAnswer(answer)
        return {"status": answer.status, "headers": answer.headers, "body": answer.text}


def _meaning(refusal: SlackApiError, token: str) -> Outcome:
    response = refusal.response
    headers = {name.lower(): value for name, value in response.headers.items()}
    code = _code(refusal)
    if response.status_code != 200:
        said = excerpt(code, token)
        return outcome(response.status_code, retry_after=headers.get("retry-after"), said=said)
    said = _MEANING.get(code) or excerpt(code.replace("_", " "), token)
    if code in _UNFIT:
        return Rejected(reason=f"Slack refuses the message: {said}")
    return Retry(reason=f"Slack refuses: {said}")


def _code(refusal: SlackApiError) -> str:
    return str(refusal.response.get("error") or "no error code")


def _digest(notice: Notice) -> str:
    """Of what this notice says; all repetitions say the same."""
    news = [tuple(map(str, alert.key)) for alert in notice.news]
    return hashlib.sha256(repr((notice.reason.value, news)).encode("utf-8", "backslashreplace")).hexdigest()[:16]
