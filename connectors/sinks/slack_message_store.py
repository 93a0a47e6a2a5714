"""SlackMessageStore: remembers which Slack message belongs to which incident, in a small file beside the ledger."""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from connectors.durable_file import replace_file
from connectors.sinks.state_file import state_file
from connectors.stored_json import parse_json

_LOG = logging.getLogger(__name__)
_MAX_MESSAGES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackMessageRecord:
    """One message."""

    channel: str
    ts: str
    """Slack's id of the message within the channel."""
    digest: str
    """Identifies the notification that was sent last, completely."""


class SlackMessageStore:
    """The newest thousand messages, by incident. If the file is lost, firing incidents get a second message."""

    def __init__(self, folder: Path, name: str) -> None:
        """`name` is the sink's; `folder` need not exist yet."""
        self._path = state_file(folder, name)
        self._messages: dict[str, SlackMessageRecord] | None = None
        self._failed = False

    def find(self, incident: str) -> SlackMessageRecord | None:
        """Returns the message of an incident."""
        return self._read().get(incident)

    def put(self, incident: str, message: SlackMessageRecord) -> None:
        """Stores the message of an incident, on disk if possible."""
        messages = self._read()
        if messages.get(incident) == message:
            return
        messages.pop(incident, None)
        messages[incident] = message
        for oldest in list(messages)[:-_MAX_MESSAGES]:
            del messages[oldest]
        self._write(messages)

    def _read(self) -> dict[str, SlackMessageRecord]:
        if self._messages is None:
            self._messages = {}
            try:
                document = parse_json(self._path.read_bytes())
                self._messages = {
                    incident: SlackMessageRecord(**plain) for incident, plain in document["messages"].items()
                }
            except FileNotFoundError:
                pass
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                _LOG.warning("%s cannot be read: firing incidents are posted again.", self._path)
        return self._messages

    def _write(self, messages: dict[str, SlackMessageRecord]) -> None:
        plain = {incident: asdict(message) for incident, message in messages.items()}
        content = json.dumps({"version": 1, "messages": plain}).encode()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, content)
            self._failed = False
        except OSError as problem:
            # The notification was delivered: this failure must not cause another delivery.
            if not self._failed:
                reason = problem.strerror
                _LOG.warning(
                    "%s cannot be written: %s; after a restart, incidents are posted again.", self._path, reason
                )
            self._failed = True
