from contextlib import closing
from unittest.mock import Mock

import pytest

from connectors.errors import KraftwatchError
from connectors.gather import cluster_gatherer
from connectors.gather.cluster_gatherer import ClusterGatherer, describe_fault, supervised
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.node_directory import KnownEndpoints
from connectors.gather.publisher import Publisher
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.gather.scripted_cluster import RecordedOutput

SECRET = "secret-text"


def test_failed_coroutine_is_recorded_and_restarted_while_others_continue(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("connectors.gather.cluster_gatherer._RESTART_AFTER_S", 0.01)
    loop, output, starts, ticks = EventLoop(), RecordedOutput(), [], []

    async def broken() -> None:
        starts.append(1)
        raise KeyError(SECRET)

    async def healthy() -> None:
        while True:
            ticks.append(1)
            await loop.sleep(0.005)

    async def main() -> None:
        loop.spawn(supervised(loop, "a", ObservationSource.LOG, output, broken))  # type: ignore[arg-type]
        loop.spawn(supervised(loop, "b", ObservationSource.LOG, output, healthy))  # type: ignore[arg-type]
        while len(starts) < 3:
            await loop.sleep(0.005)

    loop.run(main)
    loop.close()
    assert len(ticks) > 3
    assert {event.reason for event in output.failures} == {Reason.TASK_FAILED}
    assert all("KeyError at test_cluster_gatherer.py" in event.detail for event in output.failures)
    assert all(SECRET not in event.detail for event in output.failures)


def test_a_restarted_log_task_begins_with_a_new_follower_where_the_former_one_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starts: list[FetchPosition] = []

    class FailingFollower:
        def __init__(self, *_: object, start: FetchPosition, **_further: object) -> None:
            starts.append(start)
            self.position = FetchPosition(offset=start.offset + 7, epoch=3)

        async def run(self) -> None:
            raise KeyError(SECRET)

    monkeypatch.setattr(cluster_gatherer, "_RESTART_AFTER_S", 0.01)
    monkeypatch.setattr(cluster_gatherer, "LogFollower", FailingFollower)
    with closing(EventLoop()) as loop:
        gatherer = ClusterGatherer(
            ClusterConnection(name="a", bootstrap=(("127.0.0.1", 1),), cluster_id="x"),
            loop=loop,
            publisher=Publisher(Mock(), loop, on_failure=lambda: None),
            rate_limiter=RateLimiter(),
            start=FetchPosition(offset=10, epoch=2),
            last_observed_ms=None,
            known_endpoints=KnownEndpoints(),
        )

        async def main() -> None:
            gatherer.start()
            while len(starts) < 3:
                await loop.sleep(0.005)
            gatherer.client.close()

        loop.run(main)
    assert starts == [FetchPosition(offset=10, epoch=2), *(FetchPosition(offset=at, epoch=3) for at in (17, 24))]


def test_only_messages_of_kraftwatch_errors_are_included() -> None:
    assert describe_fault(KraftwatchError("one clear sentence")) == "one clear sentence"
    assert SECRET not in describe_fault(ValueError(SECRET))
