"""The clocks: the one place that reads the wall clock. Rules and replay get times as input and never read a clock."""

import time
from collections.abc import Callable

from rules.model.identifiers import Millis

STEP_MS = 1_000
"""A wall clock that differs by this from the time that has passed since its last reading was set. NTP slews less."""


def wall_ms() -> Millis:
    """Returns the wall clock in milliseconds since the Unix epoch."""
    return Millis(time.time_ns() // 1_000_000)


def steady_ms() -> Millis:
    """Returns the monotonic clock in milliseconds: it is never set, and shows only how much time has passed."""
    return Millis(time.monotonic_ns() // 1_000_000)


class StepDetector:
    """By how much the wall clock was set from one reading to the next."""

    def __init__(self, steady: Callable[[], Millis] = steady_ms) -> None:
        self._steady = steady
        self._before: tuple[Millis, Millis] | None = None

    def step_ms(self, now_ms: Millis) -> int:
        """Takes the wall clock; returns how much it differs from the time that has passed since the last reading."""
        before, self._before = self._before, (now_ms, self._steady())
        return 0 if before is None else (now_ms - before[0]) - (self._before[1] - before[1])


class RowClock:
    """The time of one cluster's rows: the wall clock, which must never go back here.

    While the wall clock is behind the newest row (it was set back), nine tenths of the time that passes are added: if
    time stood still, no alert could fire or resolve until the wall clock has caught up. If it is set forward, the rows'
    time follows at once, and `take_jump_ms` returns how much of it has not passed.
    """

    def __init__(
        self,
        *,
        not_before_ms: int = 0,
        wall: Callable[[], int] = wall_ms,
        steady: Callable[[], int] = steady_ms,
    ) -> None:
        self._wall, self._steady = wall, steady
        self._read_ms = steady()
        self._newest_ms = max(not_before_ms, wall())
        self._tenths = 0
        self._jump_ms = 0

    def read(self) -> Millis:
        """Returns the time, never earlier than what it returned before."""
        wall, steady = self._wall(), self._steady()
        passed_ms, self._read_ms = steady - self._read_ms, steady
        if wall >= self._newest_ms:
            jump_ms = wall - self._newest_ms - passed_ms
            self._jump_ms += jump_ms if jump_ms >= STEP_MS else 0
            self._newest_ms = wall
        else:
            added_ms, self._tenths = divmod(self._tenths + 9 * passed_ms, 10)
            self._newest_ms += added_ms
        return Millis(self._newest_ms)

    def ahead_ms(self) -> Millis:
        """Returns by how much its time is ahead of the wall clock, which was set back."""
        return Millis(max(0, self.read() - self._wall()))

    def take_jump_ms(self) -> int:
        """Returns, once, by how much the time jumped forward without passing since the last call."""
        jump_ms, self._jump_ms = self._jump_ms, 0
        return jump_ms
