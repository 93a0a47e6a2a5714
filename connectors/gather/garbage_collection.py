"""The gatherer's garbage collection: objects that live as long as their cluster are not examined again and again.

A request that waits for a second reaches Python's oldest generation. With 1,000 clusters that generation is then
collected every few seconds, a million objects of which none can be freed: a third of the gatherer's CPU time, in pauses
of half a second.
"""

import gc
from typing import Final

from connectors.kafka.event_loop import EventLoop

_YOUNG_OBJECTS: Final = 20_000
_FIRST_S: Final = 30.0
"""Until all clusters are connected."""
_EVERY_S: Final = 3_600.0


async def exclude_long_lived_objects(loop: EventLoop) -> None:
    """Excludes the objects that exist from collection, soon after the start and then each hour."""
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)
    pause_s = _FIRST_S
    while True:
        await loop.sleep(pause_s)
        # What was excluded before and is unreachable now is collected here.
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        pause_s = _EVERY_S
