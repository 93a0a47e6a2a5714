"""The backoff of failed addresses: bounded in time and in memory."""

from connectors.errors import ObservationError
from connectors.kafka.address_backoff import MAX_ADDRESSES, AddressBackoff
from connectors.kafka.client import Address
from rules.model.monitoring import Reason

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
    assert len(backoff) == MAX_ADDRESSES
    assert backoff.problem(Address(f"c{3 * MAX_ADDRESSES - 1}", 9093)) is not None
