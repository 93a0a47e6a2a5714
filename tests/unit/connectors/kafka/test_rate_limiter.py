from hypothesis import given
from hypothesis import strategies as st

from connectors.kafka.event_loop import EventLoop
from connectors.kafka.rate_limiter import MAX_REQUESTS_PER_SECOND, RateLimiter


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 4)), max_size=60))
def test_no_second_has_more_requests_than_the_limit(requests: list[tuple[float, int]]) -> None:
    now = [0.0]
    rate_limiter = RateLimiter(clock=lambda: now[0])
    sent: list[float] = []
    for pause, tokens in requests:
        now[0] += pause
        for _ in range(3):
            while (wait := rate_limiter.try_acquire(tokens)) > 0:
                now[0] += wait
            for _ in range(tokens):
                rate_limiter.count_request()
                sent.append(now[0])

    busiest = max((sum(at <= one < at + 0.999 for one in sent) for at in sent), default=0)
    assert busiest <= MAX_REQUESTS_PER_SECOND
    assert rate_limiter.requests_sent == len(sent)
    assert rate_limiter.busiest_second <= MAX_REQUESTS_PER_SECOND


def test_concurrent_requests_are_all_sent(loop: EventLoop) -> None:
    rate_limiter = RateLimiter()

    async def one() -> None:
        await rate_limiter.acquire(loop, 2)
        rate_limiter.count_request()
        rate_limiter.count_request()

    async def main() -> None:
        await loop.gather(one() for _ in range(12))

    loop.run(main)
    assert rate_limiter.requests_sent == 24
    assert rate_limiter.busiest_second <= MAX_REQUESTS_PER_SECOND
