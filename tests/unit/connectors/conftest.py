"""Event loops for tests: one in real time, and one whose clock jumps to the next timer."""

import selectors
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from connectors.kafka import event_loop
from connectors.kafka.event_loop import EventLoop
from tests.unit.connectors.kafka.clients import close_clients


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    created = EventLoop()
    yield created
    close_clients()
    created.close()


@pytest.fixture
def simulated_time_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLoop]:
    """For tests without sockets: the order of events does not depend on the machine's load, and no test waits."""
    now_s = [1_000.0]
    time = SimpleNamespace(monotonic=lambda: now_s[0])

    select = selectors.DefaultSelector.select

    def jump(selector: selectors.DefaultSelector, timeout: float | None = None) -> Any:
        ready = select(selector, 0)
        if not ready:
            assert timeout is not None, "every coroutine waits and no timer is pending"
            # Slightly more than the timeout, so that rounding does not leave a timer just short of due.
            now_s[0] += timeout + 1e-9
        return ready

    monkeypatch.setattr(event_loop, "time", time)
    monkeypatch.setattr("kafka.net.selector.time", time)
    monkeypatch.setattr(selectors.DefaultSelector, "select", jump)
    created = EventLoop()
    yield created
    created.close()
