"""One look: the gatherer's own code run in this process for a few seconds, replayed and judged, nothing written.

What is seen goes to the same machine and the same rules as in the streaming job, so both say the same; but holds do
not apply: a finding is what stands now. A look is done when the log is read to its high watermark, DescribeQuorum
was answered, every voter's recorded endpoint was probed and no rule asks for more; or when for as long as
`no-leader` holds nobody led; or when the time is up. Then `missing` says what did not come.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from connectors.errors import UnseenError, UsageError
from connectors.gather.publisher import Recording
from connectors.kafka.cluster_id_lookup import identify
from connectors.kafka.event_loop import Loop
from connectors.observation import Observation
from rules.model.monitoring import Reason
from streaming.status.cluster_state import Glimpse
from streaming.status.live_cluster import Target, View

IDENTIFY_S = 3.0
IDENTIFY_AGAIN_S = 1.0
"""Where the id is known already: an answer can only confirm it."""
_READING_TIMES = 6
"""A log that is being read may take this many times the time that was given."""
_LOOK_EVERY_S = 0.1
_SPEAK_AFTER_MS = 2_000
_DECIDING = "all was seen once, and not every rule can tell yet"

Say = Callable[[str], None]
"""Tells whoever waits what is still waited for."""


def look(
    targets: Sequence[Target],
    *,
    timeout_s: float,
    say: Say = lambda _: None,
    each: Callable[[Sequence[Glimpse]], bool] = lambda _: False,
    every_s: float = 1.0,
) -> Sequence[Glimpse]:
    """Look at clusters side by side.

    Args:
        targets: the clusters; names differ.
        timeout_s: how long to wait for what is missing.
        say: is told what is missing, when that takes more than two seconds.
        each: is given every glimpse; True asks for another one, `every_s` later.
        every_s: see `each`.

    Returns:
        The last glimpse of each target, in their order.

    Raises:
        UsageError: another cluster answers than was configured or recorded.
    """
    with ThreadPoolExecutor(max_workers=min(16, len(targets))) as pool:
        known = list(pool.map(_identified, targets))
    loop = Loop()
    views = {target.cluster.name: View(target) for target in known}
    recording = Recording(_Replayed(views), loop, failed=loop.stop)
    watches = [views[target.cluster.name].watch(loop, recording) for target in known]

    async def main() -> Sequence[Glimpse]:
        for watch in watches:
            watch.start()
        await _settle(loop, list(views.values()), timeout_s=timeout_s, say=say)
        glimpses = [view.glimpse() for view in views.values()]
        while each(glimpses):
            await loop.sleep(every_s)
            glimpses = [view.glimpse() for view in views.values()]
        return glimpses

    try:
        return loop.run(main)
    finally:
        loop.ending = True
        for watch in watches:
            watch.client.close()
        loop.close()


async def _settle(loop: Loop, views: Sequence["View"], *, timeout_s: float, say: Say) -> None:
    began, told = loop.now(), ""
    while True:
        waiting = [view for view in views if not view.settled()]
        passed = loop.now() - began
        reading = any(view.reading for view in waiting)
        if not waiting or passed > timeout_s * (_READING_TIMES if reading else 1):
            return
        wish = "; ".join(f"{view.name}: {', '.join(view.missing() or (_DECIDING,))}" for view in waiting)
        if passed * 1000 > _SPEAK_AFTER_MS and wish != told:
            say(f"still looking: {wish}")
            told = wish
        await loop.sleep(_LOOK_EVERY_S)


class _Replayed:
    """The Appender that keeps nothing: each row is applied as it comes."""

    def __init__(self, views: Mapping[str, "View"]) -> None:
        self._views = views

    def append(self, observations: list[Observation], /) -> None:
        for row in observations:
            self._views[row.cluster].apply(row)

    def publish(self) -> int:
        return 0


def _identified(target: Target) -> Target:
    """The target with its cluster id, where somebody tells it: whoever answers at an endpoint is compared with it."""
    cluster = target.cluster
    known = target.recorded.machine.cluster_id if target.recorded else None
    if known is not None and cluster.cluster_id is None:
        cluster = replace(cluster, cluster_id=known)
    try:
        found = identify(cluster, IDENTIFY_S if cluster.cluster_id is None else IDENTIFY_AGAIN_S)
        return replace(target, cluster=replace(cluster, cluster_id=found))
    except UnseenError as problem:
        if problem.reason is Reason.WRONG_CLUSTER:
            raise UsageError(
                f"cluster {cluster.name}: {problem.detail}; correct the address or the cluster_id"
            ) from None
        return replace(target, cluster=cluster)
