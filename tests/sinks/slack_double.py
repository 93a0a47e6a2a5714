"""Slack, as far as we use it: its documented schema held strictly, its messages, its error codes."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError

from tests.sinks.server import Answer, Request

_SCHEMA = json.loads((Path(__file__).parent / "slack.schema.json").read_text())
CHANNEL = "C0KAFKA0001"


def check(call: str, body: dict[str, Any]) -> None:
    """Raises ValidationError where Slack would not take it."""
    Draft202012Validator({"$ref": f"#/$defs/{call}", "$defs": _SCHEMA["$defs"]}).validate(body)


@dataclass
class Message:
    """What stands in the channel."""

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
class Slack:
    """One workspace with one channel."""

    messages: list[Message] = field(default_factory=list)
    refusing: dict[str, str] = field(default_factory=dict)
    """Error codes, by the call that answers with them."""
    invalid: list[str] = field(default_factory=list)
    """What was not as documented."""
    token: str | None = None
    lenient: bool = False
    """Says of what is not as documented what Slack says; else something that no sink has an answer to."""

    @property
    def shown(self) -> list[Message]:
        """In the channel itself."""
        return [each for each in self.messages if each.thread_ts is None]

    @property
    def replies(self) -> list[Message]:
        return [each for each in self.messages if each.thread_ts is not None]

    def answer(self, request: Request) -> Answer:
        """What the API answers."""
        call = request.path.removeprefix("/api/")
        if self.token is not None and request.headers["Authorization"] != f"Bearer {self.token}":
            return said({"ok": False, "error": "invalid_auth"})
        body = json.loads(request.body)
        try:
            check(call, body)
        except ValidationError as problem:
            self.invalid.append(problem.message)
            code = "invalid_blocks" if self.lenient else "not_as_documented"
            return said({"ok": False, "error": code, "errors": [problem.message]})
        if error := self.refusing.get(call):
            return said({"ok": False, "error": error})
        return self._posted(body) if call == "chat.postMessage" else self._updated(body)

    def _posted(self, body: dict[str, Any]) -> Answer:
        message = Message(f"{1795150862 + len(self.messages)}.000100", body, body.get("thread_ts"))
        self.messages.append(message)
        return said({"ok": True, "channel": CHANNEL, "ts": message.ts, "message": {"type": "message"}})

    def _updated(self, body: dict[str, Any]) -> Answer:
        for message in self.messages:
            if message.ts == body["ts"]:
                message.body = body
                message.edits += 1
                return said({"ok": True, "channel": CHANNEL, "ts": message.ts, "text": body["text"]})
        return said({"ok": False, "error": "message_not_found"})


def said(body: dict[str, Any], status: int = 200) -> Answer:
    return Answer(status=status, body=json.dumps(body).encode())


def webhook(request: Request) -> Answer:
    """What an incoming webhook answers."""
    try:
        check("webhook", json.loads(request.body))
    except ValidationError as problem:
        return Answer(status=418, body=problem.message.encode())
    return Answer(body=b"ok")
