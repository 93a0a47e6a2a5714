"""The heartbeat of the gatherer's event loop: when it last ran, and how long it stalled.

One event loop serves all clusters, so a stall delays every cluster. The loop notes the time of its turns; the file
`gather-stats.json` holds it, and a reader in another process judges its age: a loop that is frozen cannot report it.
Times are of CLOCK_MONOTONIC, which all processes of a machine share and no clock change moves.
"""

from collections import deque
from typing import Final

from connectors.kafka.event_loop import EventLoop

STALLED_S: Final = 5.0
"""A loop that did not run for this long is stalled: polls, which are due each second, are missing."""
INTERRUPTED_S: Final = 2.0
"""A loop that did not run for this long did not observe: its next row reports the gap first."""
_TURN_S: Final = 0.25
_REMEMBERED_S: Final = 60.0


def gatherer_problem(*, runs: bool, stalled_s: float | None) -> str | None:
    """Returns why nothing is observed; None if the gatherer runs, and its loop ran recently or was not reported yet."""
    if not runs:
        return "the gatherer does not run"
    if stalled_s is None or stalled_s <= STALLED_S:
        return None
    return f"the gatherer's event loop has not run for {stalled_s:.1f} s: no cluster is observed"


class LoopHeartbeat:
    """Measures the turns of one event loop."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._stalls: deque[tuple[float, float]] = deque()
        self.turn_at_s = loop.now()
        """Monotonic seconds of the newest turn."""
        self._runs = False
        self._gap_s = 0.0
        self._gaps = 0

    async def run(self) -> None:
        """Measures until cancelled."""
        self.turn_at_s, self._runs = self._loop.now(), True
        while True:
            await self._loop.sleep(_TURN_S)
            self._turn(max(0.0, self._loop.now() - self.turn_at_s - _TURN_S))

    def newest_gap(self) -> tuple[int, float]:
        """Returns how often the loop did not run for INTERRUPTED_S, and for how long the last time.

        A socket may be served before the late turn itself: a gap counts as soon as it is over.
        """
        late_s = self._loop.now() - self.turn_at_s - _TURN_S
        if self._runs and late_s >= INTERRUPTED_S:
            self._turn(late_s)
        return self._gaps, self._gap_s

    def _turn(self, late_s: float) -> None:
        if late_s >= INTERRUPTED_S:
            self._gaps, self._gap_s = self._gaps + 1, late_s
        self.turn_at_s = self._loop.now()
        self._stalls.append((self.turn_at_s, late_s))
        while self._stalls[0][0] < self.turn_at_s - _REMEMBERED_S:
            self._stalls.popleft()

    @property
    def longest_stall_s(self) -> float:
        """The longest time in the last minute by which a turn came late."""
        return max((late_s for _, late_s in self._stalls), default=0.0)
