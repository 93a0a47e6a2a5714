"""A sweep: late answers count, old ones do not."""

from connectors.errors import UnseenError
from connectors.kafka.client import Address
from connectors.kafka.concurrent_query import Sweep
from connectors.kafka.event_loop import Loop
from rules.model.monitoring import Reason

A = Address("a", 1)


class Clock(Loop):
    """A loop whose time can be put forward."""

    ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


class Asked:
    """Answers with how often it was asked, each answer after a while."""

    def __init__(self, loop: Loop, slow_s: float) -> None:
        self._loop = loop
        self._slow_s = slow_s
        self.times = 0

    async def ask(self, address: Address) -> int:
        self.times += 1
        number = self.times
        await self._loop.sleep(self._slow_s)
        return number


def rounds(away_s: float) -> list[object]:
    """What the second round gives for A, which answered after the first one was over, `away_s` seconds ago."""
    loop = Clock()
    asked = Asked(loop, slow_s=0.05)
    sweep = Sweep(loop, asked.ask)

    async def run() -> list[object]:
        first = await sweep.round([A], seconds=0.0, good=lambda _: True)
        assert not isinstance(first[A], int)
        await loop.sleep(0.1)
        loop.ahead_s += away_s
        second = await sweep.round([A], seconds=1.0, good=lambda _: True)
        return [second[A]]

    try:
        return loop.run(run)
    finally:
        loop.close()


def test_an_answer_that_came_late_counts_in_the_next_round() -> None:
    assert rounds(away_s=1.0) == [1]


def test_an_answer_of_an_hour_ago_is_none() -> None:
    assert rounds(away_s=3_600.0) == [2]


def test_an_answer_that_comes_now_to_what_was_asked_before_a_newer_one_is_none(leaping_loop: Loop) -> None:
    asked = Asked(leaping_loop, slow_s=0.1)
    sweep = Sweep(leaping_loop, asked.ask)

    async def run() -> list[object]:
        await sweep.round([A], seconds=0.05, good=lambda _: True)
        since = leaping_loop.now()
        late = (await sweep.round([A], seconds=1.0, good=lambda _: True, since=since))[A]
        return [late, (await sweep.round([A], seconds=1.0, good=lambda _: True, since=since))[A]]

    late, again = leaping_loop.run(run)
    assert isinstance(late, UnseenError)
    assert late.reason is Reason.TIMED_OUT
    assert again == 2, "it is asked anew"
