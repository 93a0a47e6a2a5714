"""A fence: a fault of ours in one coroutine is told and the coroutine started anew; the others never notice."""

import logging
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from connectors.errors import KraftwatchError
from connectors.event import ObservationFailed
from connectors.gather.observation_output import Output
from connectors.kafka.event_loop import Loop
from rules.model.monitoring import ObservationSource, Reason

_LOG = logging.getLogger(__name__)
_FIRST_S = 1.0
_LONGEST_S = 30.0
_LONG_RUN_S = 60.0


async def fenced(
    loop: Loop, cluster: str, sight: ObservationSource, output: Output, start: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run what `start` makes, again and again; each end is an `unseen` row and a line in the log."""
    pause = _FIRST_S
    while True:
        began = loop.now()
        try:
            await start()
            said = "it ended"
        except Exception as problem:  # noqa: BLE001 - whatever it is, the other clusters go on
            said = told(problem)
        if loop.ending:
            return
        _LOG.error("Cluster %s: looking at its %s failed and is started again: %s", cluster, sight.value, said)
        output.unseen(
            ObservationFailed(
                sight=sight, endpoint="", reason=Reason.INTERRUPTED, detail=f"a fault of the gatherer: {said}"
            )
        )
        pause = _FIRST_S if loop.now() - began > _LONG_RUN_S else min(_LONGEST_S, pause * 2)
        await loop.sleep(pause)


def told(problem: BaseException) -> str:
    """A fault in words without secrets: its message only where it is ours, else its class and place."""
    if isinstance(problem, KraftwatchError):
        return str(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{where}"
