"""Progress of a replica, as its leader sees it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Progress:
    """What a leader knows of a replica. Times are the leader's clock."""

    end_offset: int
    fetched_at_ms: int
    caught_up_at_ms: int
