"""An event loop that is blocked."""

from connectors.kafka.event_loop import EventLoop
from tests.unit.connectors.simulated_time import SimulatedTimeLoop


def block(loop: EventLoop, seconds: float) -> None:
    """Lets the simulated time pass while the loop serves nobody, as work in the loop does."""
    assert isinstance(loop.asyncio, SimulatedTimeLoop)
    loop.asyncio.simulated.now_s += seconds
