"""The progress of a replica, as its leader has it."""

from dataclasses import dataclass


@dataclass(slots=True)
class ReplicaProgress:
    """A replica's progress. Times are the leader's clock."""

    end_offset: int
    fetched_at_ms: int
    caught_up_at_ms: int
