from hypothesis import given
from hypothesis import strategies as st

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import MAX_ADDRESSES, MAX_REQUESTS_PER_SECOND, AddressBackoff, RateLimiter
from rules.model.monitoring import Reason


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


C1 = Address("c1", 9093)


def test_failure_is_reported_until_the_backoff_ends() -> None:
    now_s = [0.0]
    backoff = AddressBackoff(lambda: now_s[0])
    backoff.fail(C1, ObservationError(Reason.REFUSED, "no"))
    problem = backoff.problem(C1)
    assert problem is not None
    assert (problem.reason, problem.detail) == (Reason.REFUSED, "no")
    now_s[0] = 0.21
    assert backoff.problem(C1) is None


def test_address_that_fails_for_hours_is_still_retried_each_second() -> None:
    now_s = [0.0]
    backoff = AddressBackoff(lambda: now_s[0])
    for _ in range(5_000):
        backoff.fail(C1, ObservationError(Reason.REFUSED, "no"))
    now_s[0] = 1.01
    assert backoff.problem(C1) is None
    backoff.succeed(C1)
    backoff.fail(C1, ObservationError(Reason.REFUSED, "no"))
    now_s[0] = 1.25
    assert backoff.problem(C1) is None, "a success forgets the failures"


def test_number_of_remembered_addresses_is_bounded() -> None:
    backoff = AddressBackoff(lambda: 0.0)
    for number in range(3 * MAX_ADDRESSES):
        backoff.fail(Address(f"c{number}", 9093), ObservationError(Reason.REFUSED, "no"))
    assert len(backoff._failed) == MAX_ADDRESSES
    assert backoff.problem(Address(f"c{3 * MAX_ADDRESSES - 1}", 9093)) is not None
