"""WaitingRows: the rows of a relay's journal that the topic may not have yet, in order."""

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from connectors.observations.observation import Observation
from connectors.relay.topic_position import RowExtent, extent


@dataclass(slots=True, kw_only=True)
class WaitingRow:
    """One row."""

    cluster: str
    sequence: int
    """In the journal."""
    extent: RowExtent
    payload_bytes: int
    since: float
    """Monotonic seconds at which it was read from the journal."""
    sent: int | None
    """Its sequence in the topic; None if another relay writes the cluster."""
    done: bool = False


class WaitingRows:
    """Rows from some place of the journal on. Those of a cluster leave in their order."""

    def __init__(self, clusters: Collection[str]) -> None:
        """Begins without rows; `clusters`: those that wait for the topic, rows of others do not."""
        self._order: deque[WaitingRow] = deque()
        self._of_cluster: dict[str, deque[WaitingRow]] = {name: deque() for name in clusters}
        self._since: dict[str, float] = {}
        self._before: dict[str, float] = {}
        self.in_flight = 0
        """How many of them this relay sends."""

    @property
    def oldest_since(self) -> float | None:
        """Since when the oldest row waits."""
        return self._order[0].since if self._order else None

    def of(self, cluster: str) -> Sequence[WaitingRow]:
        """Returns the rows of a cluster, oldest first."""
        return self._of_cluster[cluster]

    def missing_s(self, cluster: str) -> float:
        """Returns for how long the topic has lacked the oldest row of a cluster; 0 if no row waits."""
        return time.monotonic() - self._since[cluster] if self._of_cluster[cluster] else 0.0

    def missing_before(self, missing_s: Mapping[str, float]) -> None:
        """The rows of these clusters have been missing for so long before they are added."""
        now = time.monotonic()
        self._before = {name: now - each for name, each in missing_s.items() if each}

    def restart_wait(self, clusters: Collection[str]) -> None:
        """Lets the time of `missing_s` begin again."""
        now = time.monotonic()
        self._since |= dict.fromkeys(clusters, now)

    def add(self, row: Observation, *, sent: int | None) -> None:
        """Adds the next row of the journal."""
        now = time.monotonic()
        one = WaitingRow(
            cluster=row.cluster,
            sequence=row.sequence,
            extent=extent(row),
            payload_bytes=len(row.payload),
            since=now,
            sent=sent,
            done=row.cluster not in self._of_cluster,
        )
        self._order.append(one)
        if one.done:
            return
        if not self._of_cluster[row.cluster]:
            self._since[row.cluster] = self._before.pop(row.cluster, now)
        self._of_cluster[row.cluster].append(one)
        self.in_flight += sent is not None

    def no_longer_sent(self, cluster: str) -> None:
        """Another relay writes the cluster now."""
        for one in self._of_cluster[cluster]:
            if one.sent is not None:
                one.sent = None
                self.in_flight -= 1

    def remove(self, cluster: str, is_done: Callable[[WaitingRow], bool]) -> list[WaitingRow]:
        """Removes the oldest rows of a cluster as far as they are done; returns those that this relay has sent."""
        sent: list[WaitingRow] = []
        waiting = self._of_cluster[cluster]
        while waiting and is_done(waiting[0]):
            one = waiting.popleft()
            one.done = True
            self._since[cluster] = time.monotonic()
            if one.sent is not None:
                self.in_flight -= 1
                sent.append(one)
        return sent

    def done_to(self) -> int | None:
        """Returns the sequence below which all rows are done now; None if it has not advanced."""
        done = None
        while self._order and self._order[0].done:
            done = self._order.popleft()
        return None if done is None else done.sequence + 1
