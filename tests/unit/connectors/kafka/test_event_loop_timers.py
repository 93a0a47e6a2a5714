"""The event loop: timers, cancelled timers, and descriptors that are used again."""

from collections.abc import Iterator

import pytest

from connectors.kafka.event_loop import TimerLoop


@pytest.fixture
def net() -> Iterator[TimerLoop]:
    created = TimerLoop()
    yield created
    created.close()


def test_timers_run_in_order_and_cancelled_ones_do_not(net: TimerLoop) -> None:
    ran: list[str] = []
    timers = {
        name: net.call_later(after, lambda name=name: ran.append(name))
        for after, name in ((0.03, "c"), (0.01, "a"), (0.02, "b"))
    }
    net.cancel(timers["b"])

    async def main() -> None:
        await net.sleep(0.05)

    net.run(main)
    assert ran == ["a", "c"]


def test_rescheduled_timer_runs_once_at_its_new_time(net: TimerLoop) -> None:
    ran: list[float] = []

    async def main() -> None:
        timer = net.call_later(0.01, lambda: ran.append(1))
        net.reschedule(timer.scheduled_at + 0.02, timer)
        await net.sleep(0.02)
        assert not ran
        await net.sleep(0.03)

    net.run(main)
    assert ran == [1]


def test_cancelled_timers_do_not_delay_the_end_of_a_wait(net: TimerLoop) -> None:
    for _ in range(1_000):
        net.cancel(net.call_later(0.001, lambda: pytest.fail("a cancelled timer ran")))

    async def main() -> str:
        await net.sleep(0.01)
        return "done"

    assert net.run(main) == "done"
