"""ConcurrentQuery: late answers are used, outdated ones are not."""

import pytest

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.concurrent_query import ConcurrentQuery
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason

A = Address("a", 1)


class SlowNode:
    """Answers with the number of queries so far, after a delay."""

    def __init__(self, loop: EventLoop, slow_s: float) -> None:
        self._loop = loop
        self._slow_s = slow_s
        self.times = 0

    async def query(self, address: Address) -> int:
        self.times += 1
        number = self.times
        await self._loop.sleep(self._slow_s)
        return number


@pytest.mark.parametrize(("age_s", "answer"), [(1.0, 1), (3_600.0, 2)])
def test_late_answer_is_used_in_the_next_round_unless_it_is_old(
    simulated_time_loop: EventLoop, age_s: float, answer: int
) -> None:
    loop = simulated_time_loop
    query = ConcurrentQuery(loop, SlowNode(loop, slow_s=0.05).query)

    async def run() -> object:
        first = await query.query([A], timeout_s=0.0, accept=lambda _: True)
        assert not isinstance(first[A], int)
        await loop.sleep(age_s)
        return (await query.query([A], timeout_s=1.0, accept=lambda _: True))[A]

    assert loop.run(run) == answer


def test_answer_to_a_query_sent_before_since_is_discarded(simulated_time_loop: EventLoop) -> None:
    node = SlowNode(simulated_time_loop, slow_s=0.1)
    concurrent_query = ConcurrentQuery(simulated_time_loop, node.query)

    async def run() -> list[object]:
        await concurrent_query.query([A], timeout_s=0.05, accept=lambda _: True)
        since = simulated_time_loop.now()
        late = (await concurrent_query.query([A], timeout_s=1.0, accept=lambda _: True, since=since))[A]
        return [late, (await concurrent_query.query([A], timeout_s=1.0, accept=lambda _: True, since=since))[A]]

    late, again = simulated_time_loop.run(run)
    assert isinstance(late, ObservationError)
    assert late.reason is Reason.TIMED_OUT
    assert again == 2, "the node is queried again"


def test_address_that_is_given_twice_is_queried_once(simulated_time_loop: EventLoop) -> None:
    query = ConcurrentQuery(simulated_time_loop, SlowNode(simulated_time_loop, slow_s=0.0).query)
    found = simulated_time_loop.run(lambda: query.query([A, A], timeout_s=5.0, accept=lambda _: False))
    assert found == {A: 1}
