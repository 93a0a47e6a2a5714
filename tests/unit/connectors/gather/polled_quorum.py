"""Polls of a quorum whose nodes answer as a test says."""

from collections.abc import Callable
from typing import Any

from connectors.gather.node_directory import NodeDirectory
from connectors.gather.quorum_poll import QuorumPoll
from connectors.kafka.cluster_connection import Address
from connectors.kafka.error_code import ErrorCode
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from rules.model.replica import Poll
from tests.unit.connectors.gather.scripted_cluster import (
    RecordedOutput,
    Script,
    ScriptedClient,
)
from tests.unit.connectors.kafka.kafka_answers import quorum_answer

INTERVAL_MS = 100


class TimedOutput(RecordedOutput):
    """Notes when each row is written."""

    def __init__(self, loop: EventLoop) -> None:
        super().__init__()
        self._loop = loop
        self.times: list[float] = []

    def write_poll(self, event: Poll) -> None:
        super().write_poll(event)
        self.times.append(self._loop.now())

    def write_failure(self, event: FailedObservation) -> None:
        assert event.source is ObservationSource.QUORUM
        super().write_failure(event)
        self.times.append(self._loop.now())

    @property
    def reasons_by_endpoint(self) -> dict[str, Reason]:
        return {event.endpoint: event.reason for event in self.failures}

    @property
    def answered_by(self) -> list[str]:
        return [event.endpoint for event in self.polls]


def leader_response(_: Any = None, **answer: Any) -> Any:
    return quorum_answer(**answer)


def follower_response(_: Any = None) -> Any:
    return quorum_answer(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)


class PolledQuorum:
    """A poll of scripted controllers, all of them configured or these."""

    def __init__(
        self,
        loop: EventLoop,
        scripts: dict[Address, Script],
        *,
        configured: tuple[Address, ...] = (),
        cluster_id: str | None = "x",
        delay_s: dict[Address, float] | None = None,
    ) -> None:
        self._loop = loop
        self.output = TimedOutput(loop)
        self.controllers = ScriptedClient(
            loop, scripts, source=ObservationSource.QUORUM, answer_s=0.0, delay_s=delay_s or {}
        )
        self.nodes = NodeDirectory(configured=configured or tuple(scripts), cluster_id=cluster_id)
        self.poll = QuorumPoll(self.controllers, self.nodes, self.output, interval_ms=INTERVAL_MS)  # type: ignore[arg-type]
        self.began = loop.now()

    def run(self, *steps: float | Callable[[], object]) -> list[float]:
        """Polls, waits so many seconds, or calls, in order; returns the rows' times in intervals since the start."""

        async def main() -> None:
            running = self._loop.spawn(self.poll.run())
            for step in steps:
                if isinstance(step, float):
                    await self._loop.sleep(step)
                else:
                    step()
            assert not running.done()

        self._loop.run(main)
        return [round((at - self.began) * 1000 / INTERVAL_MS, 2) for at in self.output.times]


def poll(
    loop: EventLoop, scripts: dict[Address, Script], *, seconds: float, cluster_id: str | None = "x"
) -> tuple[TimedOutput, ScriptedClient]:
    polled = PolledQuorum(loop, scripts, cluster_id=cluster_id)
    polled.run(float(seconds))
    return polled.output, polled.controllers
