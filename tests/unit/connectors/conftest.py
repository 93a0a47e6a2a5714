"""Event loops for tests: one in real time, and one whose clock jumps to the next timer."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from connectors.kafka import event_loop
from connectors.kafka.event_loop import EventLoop
from tests.unit.connectors.kafka.clients import close_clients
from tests.unit.connectors.simulated_time import SimulatedTimeLoop


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    created = EventLoop()
    yield created
    close_clients()
    created.close()


@pytest.fixture
def simulated_time_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLoop]:
    """For tests without sockets: the order of events does not depend on the machine's load, and no test waits."""
    loop = SimulatedTimeLoop()
    monkeypatch.setattr(event_loop, "time", SimpleNamespace(monotonic=loop.time))
    created = EventLoop(loop)
    yield created
    created.close()
