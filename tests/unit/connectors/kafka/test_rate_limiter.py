from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.event_loop import Loop
from connectors.kafka.rate_limiter import CEILING, Budget


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 4)), max_size=60))
def test_no_second_sees_more_than_the_ceiling_however_the_requests_come(asks: list[tuple[float, int]]) -> None:
    now = [0.0]
    budget = Budget(clock=lambda: now[0])
    sent: list[float] = []
    for pause, places in asks:
        now[0] += pause
        for _ in range(3):
            while (wait := budget.try_take(places)) > 0:
                now[0] += wait
            for _ in range(places):
                budget.count()
                sent.append(now[0])

    busiest = max((sum(at <= one < at + 0.999 for one in sent) for at in sent), default=0)
    assert busiest <= CEILING
    assert budget.requests_sent == len(sent)
    assert budget.busiest_second <= CEILING


def test_many_at_once_get_their_turns(loop: Loop) -> None:
    budget = Budget()

    async def one() -> None:
        await budget.take(loop, 2)
        budget.count()
        budget.count()

    async def main() -> None:
        await loop.gather(one() for _ in range(12))

    loop.run(main)
    assert budget.requests_sent == 24
    assert budget.busiest_second <= CEILING
