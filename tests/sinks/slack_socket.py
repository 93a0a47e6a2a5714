"""A double of Slack's side of Socket Mode: apps.connections.open, and the WebSocket that it names.

The WebSocket has no TLS: on another port than 443 the SDK uses none.
"""

import asyncio
import json
import threading
from collections.abc import Mapping
from typing import Any, Self

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from tests.eventually import eventually
from tests.sinks.server import HttpReply, ReceivedRequest
from tests.sinks.slack_double import CHANNEL, json_reply

OPEN = "/api/apps.connections.open"


class SlackSocket:
    """Accepts connections while entered; a test presses buttons."""

    def __init__(self, app_token: str) -> None:
        self.app_token = app_token
        self.opened: list[WebSocketHandler] = []
        """The open connections, oldest first."""
        self.answered: list[str] = []
        """The envelopes that the client has acknowledged."""
        self.connections = 0
        """How many were opened."""
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        double = self

        class Connection(WebSocketHandler):
            def open(self, *_: str, **__: str) -> None:
                double.opened.append(self)
                double.connections += 1
                self.write_message(json.dumps({"type": "hello", "num_connections": len(double.opened)}))

            def on_message(self, message: str | bytes) -> None:
                double.answered.append(json.loads(message)["envelope_id"])

            def on_close(self) -> None:
                double.opened.remove(self)

        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = HTTPServer(Application([("/link/ticket-1", Connection)]))
        (listening,) = bind_sockets(0, "127.0.0.1")
        self.port: int = listening.getsockname()[1]
        server.add_socket(listening)
        self._started.set()
        await self._stop.wait()
        for each in [*self.opened]:
            each.close()
        server.stop()
        await server.close_all_connections()

    def reply(self, request: ReceivedRequest) -> HttpReply:
        """Returns the answer of apps.connections.open."""
        if request.headers["Authorization"] != f"Bearer {self.app_token}":
            return json_reply({"ok": False, "error": "invalid_auth"})
        return json_reply({"ok": True, "url": f"wss://127.0.0.1:{self.port}/link/ticket-1"})

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message to the newest connection."""
        self._loop.call_soon_threadsafe(self.opened[-1].write_message, json.dumps(message))

    def press(self, action: Mapping[str, Any], *, name: str = "ana", envelope: str = "e-1", ts: str = "") -> None:
        """Says that a person pressed a button of the message `ts`; returns once the client has answered."""
        before = len(self.answered)
        user = {"id": "U1", "name": name}
        payload: dict[str, Any] = {"type": "block_actions", "user": user, "actions": [action]}
        payload["container"] = {"type": "message", "channel_id": CHANNEL, "message_ts": ts}
        self.send({"type": "interactive", "envelope_id": envelope, "payload": payload})
        eventually(lambda: check(len(self.answered) > before, "the button was not answered"), within_s=20)

    def connected(self) -> None:
        """Waits for a connection."""
        eventually(lambda: check(bool(self.opened), "nobody has connected"), within_s=20)


def check(holds: bool, text: str) -> None:
    assert holds, text
