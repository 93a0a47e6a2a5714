"""The faults of slow networks: delay, loss and little bandwidth, of one controller's paths or of the monitor's."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.chaos.chaos_fault import RECONNECT_S, ChaosContext, ChaosFault, controllers, facts_while, only
from tests.chaos.facts import Kind
from tests.chaos.packet_filter import MONITOR, BrokenPath, Cut, SlowPath

_RESET_S = 0.5


def _slow_controller(context: ChaosContext, node: int) -> Iterator[None]:
    """The paths between a controller and the others, and from the brokers to it, are slow."""
    lab = context.lab
    others = [each for each in lab.controllers if each != node]
    pairs = [*((each, node) for each in (*others, *lab.brokers)), *((node, each) for each in others)]
    kind = context.random.choice(({"delay_ms": 400}, {"loss_percent": 15}, {"bytes_per_s": 20_000}))
    with facts_while(context, context.facts.begin(Kind.UNCERTAIN, node)):
        yield from _slow(context, pairs, kind)
        context.uncertain_for(node, RECONNECT_S)


def _slow_monitor(context: ChaosContext, _: int) -> Iterator[None]:
    """The monitor observes everything, a little later: this explains no alert, and excuses none."""
    kind = context.random.choice(({"delay_ms": 200}, {"loss_percent": 5}, {"bytes_per_s": 100_000}))
    yield from _slow(context, [(MONITOR, each) for each in context.lab.controllers], kind)


def _slow(context: ChaosContext, pairs: Sequence[tuple[int, int]], kind: Mapping[str, Any]) -> Iterator[None]:
    paths = [SlowPath(source=source, target=target, **kind) for source, target in pairs]
    context.lab.filter.change(*paths)
    if "delay_ms" in kind:
        # Only a new connection leads through the proxy.
        reset = [BrokenPath(source=source, target=target, cut=Cut.RESET) for source, target in pairs]
        context.lab.filter.change(*reset)
        time.sleep(_RESET_S)
        context.lab.filter.restore(*reset)
    yield
    context.lab.filter.restore(*paths)


NETWORK_FAULTS = (
    ChaosFault(name="a controller's network is slow", needs=controllers, run=_slow_controller),
    ChaosFault(name="the monitor's network is slow", needs=only("monitor"), run=_slow_monitor),
)
