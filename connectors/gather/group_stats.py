"""The statistics of several gatherer processes as those of one: sums, and of the event loops the worst."""

import os
import time
from collections.abc import Mapping

from connectors.gather.gatherer_stats import LoopCounts, WrittenStats, rss_bytes


def merged(shares: Mapping[int, WrittenStats], *, turn_at_s: float, rows: int, publications: int) -> WrittenStats:
    """Returns the statistics of the whole gatherer.

    Args:
        shares: the newest statistics of each process, by its number.
        turn_at_s: monotonic seconds of the oldest newest turn of an event loop: one that hangs makes the whole stall.
        rows: rows appended to the journal since the start.
        publications: publications of the journal since the start.
    """
    times = os.times()
    loops = [stats.loop for stats in shares.values() if stats.loop is not None]
    return WrittenStats(
        at_ms=time.time_ns() // 1_000_000,
        cpu_s=round(times.user + times.system + sum(stats.cpu_s for stats in shares.values()), 2),
        rss_bytes=(rss_bytes() or 0) + sum(stats.rss_bytes or 0 for stats in shares.values()),
        rows=rows,
        publications=publications,
        loop=LoopCounts(
            pid=os.getpid(),
            turn_at_s=round(turn_at_s, 3),
            longest_stall_s=max((loop.longest_stall_s for loop in loops), default=0.0),
            stalled_s=round(sum(loop.stalled_s for loop in loops), 3),
        ),
        clusters={name: counts for stats in shares.values() for name, counts in stats.clusters.items()},
    )
