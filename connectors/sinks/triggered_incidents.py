"""TriggeredIncidents: remembers which incidents PagerDuty has, in a small file beside the ledger.

PagerDuty applies an event that is sent again to the open alert, but a trigger after the resolve opens a second alert.
"""

import json
import logging
from pathlib import Path

from connectors.durable_file import replace_file
from connectors.sinks.state_file import state_file
from connectors.stored_json import parse_json

_LOG = logging.getLogger(__name__)
_MAX_INCIDENTS = 1_000


class TriggeredIncidents:
    """The newest thousand incidents that were triggered only to be resolved. If the file is lost, they are unknown."""

    def __init__(self, folder: Path, name: str) -> None:
        """`name` is the sink's; `folder` need not exist yet."""
        self._path = state_file(folder, name)
        self._incidents: list[str] | None = None
        self._failed = False

    def __contains__(self, incident: str) -> bool:
        return incident in self._read()

    def add(self, incident: str) -> None:
        """Stores an incident, on disk if possible."""
        incidents = [*self._read(), incident][-_MAX_INCIDENTS:]
        self._incidents = incidents
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self._path, json.dumps({"version": 1, "triggered": incidents}).encode())
            self._failed = False
        except OSError as problem:
            # The incident was triggered: this failure must not prevent its end.
            if not self._failed:
                _LOG.warning(
                    "%s cannot be written: %s; after a restart, PagerDuty may get a resolved incident again.",
                    self._path,
                    problem.strerror,
                )
            self._failed = True

    def _read(self) -> list[str]:
        if self._incidents is None:
            self._incidents = []
            try:
                self._incidents = [str(each) for each in parse_json(self._path.read_bytes())["triggered"]]
            except FileNotFoundError:
                pass
            except (OSError, ValueError, TypeError, KeyError):
                _LOG.warning("%s cannot be read: PagerDuty may get a resolved incident again.", self._path)
        return self._incidents
