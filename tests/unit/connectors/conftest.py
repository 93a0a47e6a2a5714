"""Loops to run coroutines in: one that waits, and one whose time leaps to what it would wait for."""

import selectors
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.kafka import event_loop as our_loop
from connectors.kafka import kafka_python
from connectors.kafka.event_loop import Loop


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def leaping_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    """For what has no sockets: a busy machine changes nothing of what happens when, and nobody waits for it."""
    now_s = [1_000.0]
    time = SimpleNamespace(monotonic=lambda: now_s[0])

    class Leaping(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> Any:
            ready = super().select(0)
            if not ready:
                assert timeout is not None, "everybody waits, and for nothing that will come"
                # A little more, so that rounding leaves nothing due that is not reached.
                now_s[0] += timeout + 1e-9
            return ready

    monkeypatch.setattr(our_loop, "time", time)
    monkeypatch.setattr("kafka.net.selector.time", time)
    monkeypatch.setitem(kafka_python.NetworkSelector.DEFAULT_CONFIG, "selector", Leaping)
    made = Loop()
    yield made
    made.close()
