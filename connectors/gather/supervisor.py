"""Restarts a coroutine that fails because of a bug, without affecting the others."""

import logging
import traceback
from collections.abc import Callable, Coroutine
from typing import Any

from connectors.errors import KraftwatchError
from connectors.gather.observation_output import ObservationOutput
from connectors.kafka.event_loop import EventLoop
from connectors.observations.observation_event import ObservationFailed
from rules.model.monitoring import ObservationSource, Reason

_LOG = logging.getLogger(__name__)
_FIRST_S = 1.0
_LONGEST_S = 30.0
_LONG_RUN_S = 60.0


async def supervised(
    loop: EventLoop,
    cluster: str,
    source: ObservationSource,
    output: ObservationOutput,
    start: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    """Runs the coroutine that `start` returns, and restarts it whenever it ends.

    Each end is recorded as an ObservationFailed event and logged. The pause before a restart grows from 2 s to 30 s;
    after a run of more than 60 s it is 1 s.
    """
    pause = _FIRST_S
    while True:
        began = loop.now()
        try:
            await start()
            fault = "it returned"
        except Exception as problem:  # noqa: BLE001 - no bug may stop the other clusters
            fault = describe_fault(problem)
        if loop.ending:
            return
        _LOG.error("Cluster %s: the %s task failed and is restarted: %s", cluster, source.value, fault)
        output.write_failure(
            ObservationFailed(
                source=source, endpoint="", reason=Reason.TASK_FAILED, detail=f"internal error of the gatherer: {fault}"
            )
        )
        pause = _FIRST_S if loop.now() - began > _LONG_RUN_S else min(_LONGEST_S, pause * 2)
        await loop.sleep(pause)


def describe_fault(problem: BaseException) -> str:
    """Describes an exception without secrets: the message of a KraftwatchError, otherwise class, file and line."""
    if isinstance(problem, KraftwatchError):
        return str(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" at {frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else ""
    return f"{type(problem).__name__}{where}"
