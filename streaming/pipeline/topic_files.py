"""TopicFiles: what the driver and Spark's planner, which reads the relay's topic, say to each other.

The planner is a process that Spark starts on the driver's machine and talks to itself: files in a folder of the job's
own are the only way to it. Nothing in them is needed after a restart.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from connectors.store.durable_file import Synced, replace_file
from rules.model.identifiers import Millis

_SOURCE: Final = "source.json"
_QUIET_UNTIL: Final = "quiet-until.json"
_STATE: Final = "state.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicState:
    """What the planner has found in the topics. Times without a unit are seconds of the machine's monotonic clock."""

    failing: str | None = None
    """Why the topics cannot be read now, as a sentence without a secret; None while they are read."""
    failing_since: float = 0.0
    read_to_end_at: Mapping[str, float] = field(default_factory=dict)
    """When each topic was last read to its end."""
    row_at: Mapping[str, float] = field(default_factory=dict)
    """When the newest row of each cluster was read."""
    waiting_ms: int = 0
    """The time of the newest row that needs no batch yet; 0 if there is none."""


_STATE_JSON: Final = TypeAdapter(TopicState)
_QUIET_JSON: Final = TypeAdapter(Mapping[str, Millis])


@dataclass(frozen=True, slots=True)
class TopicFiles:
    """The folder of the files."""

    folder: Path

    def begin(self, source: bytes) -> None:
        """Makes the folder, with what a new planner reads; `source` may hold secrets."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in (_QUIET_UNTIL, _STATE):
            (self.folder / name).unlink(missing_ok=True)
        self._replace(_SOURCE, source)

    def source(self) -> bytes:
        """Returns what `begin` was given."""
        return (self.folder / _SOURCE).read_bytes()

    def delete_source(self) -> None:
        """Deletes it: it was read."""
        (self.folder / _SOURCE).unlink(missing_ok=True)

    def put_quiet_until(self, times: Mapping[str, Millis]) -> None:
        """Stores until when quiet rows of these clusters may wait; those of others stay."""
        try:
            self._replace(_QUIET_UNTIL, json.dumps({**self.quiet_until(), **times}).encode())
        except OSError:
            # Without it no row waits.
            (self.folder / _QUIET_UNTIL).unlink(missing_ok=True)

    def quiet_until(self) -> Mapping[str, Millis]:
        """Returns until when quiet rows may wait; a cluster that is not there has no such time."""
        try:
            return _QUIET_JSON.validate_json((self.folder / _QUIET_UNTIL).read_bytes())
        except (OSError, ValueError):
            return {}

    def put_state(self, state: TopicState) -> None:
        """Stores what the planner has found."""
        # On a full disk the query goes on: what is stored is old then, and says so.
        with suppress(OSError):
            self._replace(_STATE, _STATE_JSON.dump_json(state))

    def state(self) -> TopicState:
        """Returns what the planner has found."""
        try:
            return _STATE_JSON.validate_json((self.folder / _STATE).read_bytes())
        except (OSError, ValueError):
            return TopicState()

    def _replace(self, name: str, content: bytes) -> None:
        replace_file(self.folder / name, content, synced=Synced.NOTHING)
