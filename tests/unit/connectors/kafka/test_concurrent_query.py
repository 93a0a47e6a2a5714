"""ConcurrentQuery: late answers are used, outdated ones are not."""

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.concurrent_query import ConcurrentQuery
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason

A = Address("a", 1)


class AdvanceableLoop(EventLoop):
    """An event loop whose clock can be advanced."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


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


def second_round(age_s: float) -> list[object]:
    """Returns the second round's result for A, which answered after the first round, `age_s` seconds earlier."""
    loop = AdvanceableLoop()
    node = SlowNode(loop, slow_s=0.05)
    concurrent_query = ConcurrentQuery(loop, node.query)

    async def run() -> list[object]:
        first = await concurrent_query.query([A], timeout_s=0.0, accept=lambda _: True)
        assert not isinstance(first[A], int)
        await loop.sleep(0.1)
        loop.ahead_s += age_s
        second = await concurrent_query.query([A], timeout_s=1.0, accept=lambda _: True)
        return [second[A]]

    try:
        return loop.run(run)
    finally:
        loop.close()


def test_late_answer_is_used_in_the_next_round() -> None:
    assert second_round(age_s=1.0) == [1]


def test_answer_of_an_hour_ago_is_discarded() -> None:
    assert second_round(age_s=3_600.0) == [2]


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


def test_address_that_is_given_twice_is_queried_once() -> None:
    loop = EventLoop()
    node = SlowNode(loop, slow_s=0.0)

    async def run() -> object:
        return await ConcurrentQuery(loop, node.query).query([A, A], timeout_s=5.0, accept=lambda _: False)

    try:
        assert loop.run(run) == {A: 1}
    finally:
        loop.close()
