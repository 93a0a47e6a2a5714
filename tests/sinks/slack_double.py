"""A double of Slack's API: it validates calls by the documented schema, and has messages and error codes."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from tests.sinks.server import HttpReply, ReceivedRequest

_SCHEMA = json.loads((Path(__file__).parent / "slack.schema.json").read_text())
CHANNEL = "C0KAFKA0001"


def check(call: str, body: dict[str, Any]) -> None:
    """Raises ValidationError if Slack would reject the body."""
    Draft202012Validator({"$ref": f"#/$defs/{call}", "$defs": _SCHEMA["$defs"]}).validate(body)


@dataclass
class ChannelMessage:
    """A message in the channel or in a thread."""

    ts: str
    body: dict[str, Any]
    thread_ts: str | None = None
    edits: int = 0

    @property
    def blocks(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.body["attachments"][0]["blocks"]
        return found

    @property
    def color(self) -> str:
        found: str = self.body["attachments"][0]["color"]
        return found


@dataclass
class SlackDouble:
    """One workspace with one channel."""

    messages: list[ChannelMessage] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    """Error codes, by the call that responds with them."""
    invalid: list[str] = field(default_factory=list)
    """Errors of bodies that do not match the documented schema."""
    effects: list[tuple[str, str]] = field(default_factory=list)
    """Of each accepted call: message, reply or edit; and the time stamp of the message."""
    token: str | None = None
    lenient: bool = False
    """For an invalid body, responds with Slack's error code; otherwise with a code that no sink handles."""

    @property
    def channel_messages(self) -> list[ChannelMessage]:
        """The messages in the channel itself, without threads."""
        return [each for each in self.messages if each.thread_ts is None]

    @property
    def replies(self) -> list[ChannelMessage]:
        return [each for each in self.messages if each.thread_ts is not None]

    def reply(self, request: ReceivedRequest) -> HttpReply:
        """Returns the reply of the API."""
        call = request.path.removeprefix("/api/")
        if self.token is not None and request.headers["Authorization"] != f"Bearer {self.token}":
            return json_reply({"ok": False, "error": "invalid_auth"})
        body = json.loads(request.body)
        try:
            check(call, body)
        except ValidationError as problem:
            self.invalid.append(problem.message)
            code = "invalid_blocks" if self.lenient else "not_as_documented"
            return json_reply({"ok": False, "error": code, "errors": [problem.message]})
        if error := self.errors.get(call):
            return json_reply({"ok": False, "error": error})
        return self._post(body) if call == "chat.postMessage" else self._update(body)

    def _post(self, body: dict[str, Any]) -> HttpReply:
        message = ChannelMessage(f"{1795150862 + len(self.messages)}.000100", body, body.get("thread_ts"))
        self.messages.append(message)
        thread = message.thread_ts
        self.effects.append(("message", message.ts) if thread is None else ("reply", thread))
        return json_reply({"ok": True, "channel": CHANNEL, "ts": message.ts, "message": {"type": "message"}})

    def _update(self, body: dict[str, Any]) -> HttpReply:
        for message in self.messages:
            if message.ts == body["ts"]:
                message.body = body
                message.edits += 1
                self.effects.append(("edit", message.ts))
                return json_reply({"ok": True, "channel": CHANNEL, "ts": message.ts, "text": body["text"]})
        return json_reply({"ok": False, "error": "message_not_found"})


def json_reply(body: dict[str, Any]) -> HttpReply:
    return HttpReply(body=json.dumps(body).encode())


def webhook(request: ReceivedRequest) -> HttpReply:
    """Returns the reply of an incoming webhook."""
    try:
        check("webhook", json.loads(request.body))
    except ValidationError as problem:
        return HttpReply(status=418, body=problem.message.encode())
    return HttpReply(body=b"ok")
