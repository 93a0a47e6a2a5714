"""The buttons of Slack messages: a connection by which Slack says that a person pressed one (Socket Mode).

The job opens the connection, so that no port of it is open. Slack ends a connection each few hours and says so before;
the SDK then opens the next one first (https://docs.slack.dev/apis/events-api/using-socket-mode).
"""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from connectors.errors import KraftwatchError
from connectors.sinks.following import FollowerThread
from connectors.sinks.http_request import tls_context
from connectors.sinks.sink import Responses
from rules.alert import Alert, AlertId
from rules.formatting import shortened, visible
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification

if TYPE_CHECKING:
    from slack_sdk.socket_mode import SocketModeClient
    from slack_sdk.socket_mode.client import BaseSocketModeClient
    from slack_sdk.socket_mode.request import SocketModeRequest

_LOG = logging.getLogger(__name__)
_SDK_LOG = logging.getLogger("kraftwatch.slack-sdk")
"""Muted: the SDK logs what it receives and each failure; the sink reports a failure once, without secrets."""
_SDK_LOG.addHandler(logging.NullHandler())
_SDK_LOG.setLevel(logging.CRITICAL)
_SDK_LOG.propagate = False

ACKNOWLEDGE, END, SILENCE, PAGE = "acknowledge", "end-acknowledgement", "silence", "page"
"""The `action_id` of each button."""
_MAX_ALERTS = 50
"""A button's value has at most 2,000 characters."""
_RETRY_S: Final = (10.0, 30.0, 60.0, 300.0)
"""Slack allows to open about one connection in a minute."""
_MAX_NAME = 80


def buttons(notification: Notification, page: str | None) -> dict[str, Any]:
    """Returns the block with the buttons of an incident that is open."""
    value = _value(notification.firing)
    first = (END, "End acknowledgement") if notification.acknowledged else (ACKNOWLEDGE, "Acknowledge")
    elements = [_button(*first, value=value), _button(SILENCE, "Silence 1 h", value=value)]
    if page is not None:
        elements.append(_button(PAGE, "Open page", url=page))
    return {"type": "actions", "elements": elements}


def _button(action: str, text: str, **more: str) -> dict[str, Any]:
    return {"type": "button", "action_id": action, "text": {"type": "plain_text", "text": text}, **more}


def _value(alerts: Sequence[Alert]) -> str:
    return " ".join(f"{alert.fingerprint}-{alert.started_at_ms}" for alert in alerts[:_MAX_ALERTS])


def _alert_ids(value: str) -> Iterator[AlertId]:
    """Yields the alerts of a button, which the message has shown. Raises ValueError if it is no such value."""
    for each in value.split():
        fingerprint, _, started_at_ms = each.partition("-")
        yield fingerprint, Millis(int(started_at_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Silenced:
    """What the button for a silence has done."""

    by: str
    until_ms: Millis | None
    """None: no alert of the message fires any more."""


class SlackButtons(FollowerThread):
    """Holds the connection while the job follows."""

    def __init__(
        self, name: str, new_url: Callable[[], str], reply: Callable[[str, str, "Silenced"], None], ca_file: Path | None
    ) -> None:
        """Connects to nothing yet.

        Args:
            name: of the sink.
            new_url: asks Slack for a WebSocket; it raises KraftwatchError.
            reply: says in the thread of a message, given its channel and id, who has silenced its alerts; it raises
                KraftwatchError.
            ca_file: the authority of Slack's certificate; None: those of this machine.
        """
        super().__init__(name)
        self._new_url, self._reply, self._ca_file = new_url, reply, ca_file

    def _run(self, ended: threading.Event) -> None:
        failures = 0
        while not ended.is_set():
            problem = self._connected(ended)
            if ended.is_set():
                return
            if problem is None:
                failures = 0
            elif failures == 0:
                _LOG.warning("%s: the buttons have no effect: %s; trying again", self._name, problem)
            ended.wait(_RETRY_S[min(failures, len(_RETRY_S) - 1)] if problem is not None else 1.0)
            failures += problem is not None

    def _connected(self, ended: threading.Event) -> str | None:
        """Stays connected as long as possible; returns why there is no connection, None if there was one."""
        client: SocketModeClient | None = None
        try:
            client = _socket_client(self._new_url, self._ca_file)
            client.socket_mode_request_listeners.append(self._respond)
            client.connect()
            if not client.is_connected():
                return "Slack's WebSocket cannot be opened: check the firewall and the proxy"
            while client.is_connected() and not ended.wait(0.5):
                pass
        except KraftwatchError as problem:
            return str(problem)
        except Exception as error:  # noqa: BLE001 - the library's errors contain the address, which is secret
            return type(error).__name__
        finally:
            if client is not None:
                client.close()
        return None

    def _respond(self, client: "BaseSocketModeClient", request: "SocketModeRequest") -> None:
        from slack_sdk.socket_mode.response import SocketModeResponse

        responses = self._responses
        if responses is None:
            return
        try:
            done = _apply(request.payload, responses) if request.type == "interactive" else None
        except (ValueError, LookupError, TypeError, AttributeError):
            done = None
            _LOG.warning("%s: Slack reports a button that no message of this version has", self._name)
        except KraftwatchError as problem:
            # Without an answer Slack shows the person that it failed.
            _LOG.warning("%s: a button of Slack has no effect: %s", self._name, problem)
            return
        client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        if done is not None:
            self._say(request.payload, done)

    def _say(self, payload: Mapping[str, Any], done: Silenced) -> None:
        """Replies to the message whose button was pressed: no notification shows a silence."""
        match payload.get("container"):
            case {"channel_id": str(channel), "message_ts": str(ts)}:
                try:
                    self._reply(channel, ts, done)
                except KraftwatchError as problem:
                    _LOG.warning("%s: Slack does not show that an alert was silenced: %s", self._name, problem)
            case _:
                pass


def _socket_client(new_url: Callable[[], str], ca_file: Path | None) -> "SocketModeClient":
    from slack_sdk.socket_mode import SocketModeClient
    from slack_sdk.web import WebClient

    class SocketClient(SocketModeClient):
        def issue_new_wss_url(self) -> str:
            return new_url()

    # Of the SDK's client for requests the connection uses the certificates only. Reconnecting is done here: the SDK
    # would repeat a refusal every five seconds.
    web_client = WebClient(ssl=tls_context(ca_file), logger=_SDK_LOG)
    return SocketClient(
        app_token="", web_client=web_client, logger=_SDK_LOG, auto_reconnect_enabled=False, concurrency=1
    )


def _apply(payload: Mapping[str, Any], responses: Responses) -> Silenced | None:
    """Puts what a person pressed into effect; returns a silence, which no notification shows."""
    user = payload["user"]
    by = shortened(visible(str(user.get("name") or user.get("username") or user["id"])), _MAX_NAME)
    for action in payload["actions"]:
        match action["action_id"]:
            case "acknowledge":
                responses.acknowledge([*_alert_ids(action["value"])], by=by)
            case "end-acknowledgement":
                responses.end_acknowledgement([*_alert_ids(action["value"])])
            case "silence":
                return Silenced(by=by, until_ms=responses.silence([*_alert_ids(action["value"])], by=by))
            case _:
                pass
    return None
