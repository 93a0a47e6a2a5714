"""A past state of a cluster: what is requested of the process that replays the journal, and what it replies."""

from dataclasses import dataclass
from functools import cache

from pydantic import TypeAdapter

from rules.model.identifiers import Millis
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.cluster_status import ClusterStatus
from streaming.status.status_store import EndedRecovery


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRequest:
    """Asks for the state of a cluster at a time."""

    journal: str
    """The journal's folder."""
    cluster: ClusterSettings
    at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class PastState:
    """The state with every observation up to the time."""

    status: ClusterStatus
    events: ClusterStatus
    """The same status, but with all elections, voter changes and starts of the journal that are known so far."""
    newest_ms: Millis
    """Time of its newest observation."""
    ended_recoveries: tuple[EndedRecovery, ...]
    """Topics whose recovery ended before the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastReply:
    """One line of the process: progress, or the result."""

    progress: float = 0.0
    """How much of the journal's time is replayed, from 0 to 1."""
    refusal: str | None = None
    """Why there is no such state, as a sentence."""
    state: PastState | None = None

    @property
    def final(self) -> bool:
        """Whether no further reply follows."""
        return self.state is not None or self.refusal is not None


@cache
def request_adapter() -> TypeAdapter[PastRequest]:
    """Returns pydantic's adapter of the requests."""
    return TypeAdapter(PastRequest)


@cache
def reply_adapter() -> TypeAdapter[PastReply]:
    """Returns pydantic's adapter of the replies."""
    return TypeAdapter(PastReply)
