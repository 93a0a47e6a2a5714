"""Simulated time of a job: sinks answer at once, or after the time that a test sets, and nothing waits."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from connectors.delivery import dispatcher, ledger, sink_worker
from rules.model.identifiers import Millis
from streaming.pipeline import active_role, notifying
from tests.unit.connectors.sinks.sink_alerts import NOON_MS

_MODULES = (dispatcher, ledger, sink_worker, notifying, active_role)
"""Those that measure time."""


class SimulatedClock:
    """The monotonic clock and the wall clock."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.answer_after_s = 0.0
        """When the answer to the call that ends next is known."""

    def monotonic(self) -> float:
        return self.now_s

    def wall_ms(self) -> Millis:
        return Millis(NOON_MS + round(1_000 * self.now_s))

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds


class _Answer(Future[Any]):
    """What a call to a sink returned, known after a time."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__()
        self._clock, self._known_at = clock, 0.0

    def set_result(self, result: Any) -> None:
        super().set_result(result)
        self._known_at = self._clock.now_s + self._clock.answer_after_s
        self._clock.answer_after_s = 0.0

    def result(self, timeout: float | None = None) -> Any:
        end = self._clock.now_s + (timeout or 0.0)
        if end < self._known_at:
            self._clock.now_s = end
            raise TimeoutError
        self._clock.now_s = max(self._clock.now_s, self._known_at)
        return super().result(0)


class _Called:
    """In place of a thread: calls the sink at once."""

    def __init__(self, *, target: Callable[..., None], args: Sequence[Any], **_: object) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)


@contextmanager
def simulated_time(clock: SimulatedClock) -> Iterator[None]:
    """The code that delivers uses this clock and no threads."""
    with ExitStack() as patches:
        for module in _MODULES:
            patches.enter_context(patch.object(module, "time", SimpleNamespace(monotonic=clock.monotonic)))
        patches.enter_context(patch.object(notifying, "wall_ms", clock.wall_ms))
        patches.enter_context(patch.object(sink_worker, "Thread", _Called))
        patches.enter_context(patch.object(sink_worker, "Future", lambda: _Answer(clock)))
        yield
