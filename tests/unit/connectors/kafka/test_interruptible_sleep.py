from connectors.kafka.event_loop import EventLoop, InterruptibleSleep


def test_uninterrupted_sleep_lasts_until_due(loop: EventLoop) -> None:
    sleep = InterruptibleSleep(loop)
    due = loop.now() + 0.05

    assert loop.run(lambda: sleep.sleep_until(due)) is False
    assert loop.now() >= due


def test_sleep_is_interrupted_while_it_lasts(loop: EventLoop) -> None:
    sleep = InterruptibleSleep(loop)
    due = loop.now() + 60
    loop.net.call_later(0.02, lambda: sleep.interrupt_in(0.01))

    assert loop.run(lambda: sleep.sleep_until(due)) is True
    assert loop.now() < due - 50


def test_interrupt_before_the_sleep_is_kept(loop: EventLoop) -> None:
    sleep = InterruptibleSleep(loop)
    sleep.interrupt_in(0.01)

    assert loop.run(lambda: sleep.sleep_until(loop.now() + 60)) is True


def test_earliest_of_several_interrupts_counts_once(loop: EventLoop) -> None:
    sleep = InterruptibleSleep(loop)
    sleep.interrupt_in(60)
    sleep.interrupt_in(0)
    sleep.interrupt_in(30)

    assert loop.run(lambda: sleep.sleep_until(loop.now() + 60)) is True
    assert loop.run(lambda: sleep.sleep_until(loop.now() + 0.01)) is False
