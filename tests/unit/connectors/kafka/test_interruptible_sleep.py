from connectors.kafka.event_loop import Loop
from connectors.kafka.interruptible_sleep import Rest


def test_a_rest_that_nobody_cuts_lasts_until_it_is_due(loop: Loop) -> None:
    rest = Rest(loop)
    due = loop.now() + 0.05

    assert loop.run(lambda: rest.until(due)) is False
    assert loop.now() >= due


def test_a_rest_is_cut_while_it_lasts(loop: Loop) -> None:
    rest = Rest(loop)
    due = loop.now() + 60
    loop.net.call_later(0.02, lambda: rest.cut(0.01))

    assert loop.run(lambda: rest.until(due)) is True
    assert loop.now() < due - 50


def test_a_cut_that_came_before_the_rest_is_kept(loop: Loop) -> None:
    rest = Rest(loop)
    rest.cut(0.01)

    assert loop.run(lambda: rest.until(loop.now() + 60)) is True


def test_the_earliest_of_several_cuts_counts_and_is_used_up(loop: Loop) -> None:
    rest = Rest(loop)
    rest.cut(60)
    rest.cut(0)
    rest.cut(30)

    assert loop.run(lambda: rest.until(loop.now() + 60)) is True
    assert loop.run(lambda: rest.until(loop.now() + 0.01)) is False
