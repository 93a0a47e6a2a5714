"""Memory: what the gatherer learned of endpoints, in a file beside the journal.

A gatherer that starts again reads the log from where it stopped, so the VotersRecord that tells whom to probe lies
behind it; and when the quorum is dead nobody tells it again. The file is written before the rows that taught us are
published: it may be ahead of the journal, never behind.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from connectors.gather.node_directory import Learned

NAME = "whereabouts.json"
_LOG = logging.getLogger(__name__)
_JSON: TypeAdapter[dict[str, Learned]] = TypeAdapter(dict[str, Learned])


class Memory:
    """Every cluster's, in one small file. A file that cannot be read or written costs sight, not the gathering."""

    def __init__(self, journal: Path) -> None:
        """Reads what is there."""
        self._path = journal / NAME
        self._held = self._read()

    def of(self, cluster: str) -> Learned:
        """What was learned of a cluster; nothing at all for a new one."""
        return self._held.get(cluster, Learned())

    def keep(self, learned: Mapping[str, Learned]) -> None:
        """Write what is known now, if it differs from what the file holds; whole or not at all."""
        now = self._held | dict(learned)
        if now == self._held:
            return
        temporary = self._path.with_suffix(".new")
        try:
            with temporary.open("wb") as file:
                file.write(_JSON.dump_json(now, indent=1))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except OSError as problem:
            _LOG.warning("%s cannot be written: %s", self._path, problem.strerror)
        else:
            self._held = now

    def _read(self) -> dict[str, Learned]:
        try:
            return _JSON.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError):
            _LOG.warning("%s cannot be read: endpoints are unknown until log or polls tell them", self._path)
            return {}
