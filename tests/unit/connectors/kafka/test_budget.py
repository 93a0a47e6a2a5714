from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.budget import CEILING, Budget
from connectors.kafka.loop import Loop


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_second_sees_more_than_the_ceiling_however_the_requests_come(pauses: list[float]) -> None:
    now = [0.0]
    budget = Budget(clock=lambda: now[0])
    sent: list[float] = []
    for pause in pauses:
        now[0] += pause
        for _ in range(5):
            now[0] += budget.wait_s()
            budget.spend()
            sent.append(now[0])

    busiest = max((sum(at <= one < at + 0.999 for one in sent) for at in sent), default=0)
    assert busiest <= CEILING
    assert budget.requests_sent == len(sent)
    assert budget.busiest_second <= CEILING


def test_who_cannot_wait_leaves_a_debt_for_those_who_can() -> None:
    now = [0.0]
    budget = Budget(clock=lambda: now[0])
    for _ in range(10):
        budget.spend()
    assert budget.wait_s() > 0.1
    now[0] += 1
    assert budget.wait_s() == 0


def test_a_turn_comes(loop: Loop) -> None:
    budget = Budget()

    async def many() -> None:
        for _ in range(12):
            await budget.turn(loop)
            budget.spend()

    loop.run(many)
    assert budget.requests_sent == 12
