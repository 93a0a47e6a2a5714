"""The event loop: timers, cancellation, and sockets that stay registered."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from connectors.kafka.kafka_python import Future, kafka_errors
from connectors.kafka.persistent_selector import PersistentSelector


@pytest.fixture
def net() -> Iterator[PersistentSelector]:
    created = PersistentSelector()
    yield created
    created.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
        ours.setblocking(False)
        yield ours, theirs


def test_timers_run_in_order_and_cancelled_ones_do_not(net: PersistentSelector) -> None:
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


def test_rescheduled_timer_runs_once_at_its_new_time(net: PersistentSelector) -> None:
    ran: list[float] = []

    async def main() -> None:
        timer = net.call_later(0.01, lambda: ran.append(1))
        net.reschedule(timer.scheduled_at + 0.02, timer)
        await net.sleep(0.02)
        assert not ran
        await net.sleep(0.03)

    net.run(main)
    assert ran == [1]


def test_cancelled_timers_do_not_delay_the_end_of_a_wait(net: PersistentSelector) -> None:
    for _ in range(1_000):
        net.cancel(net.call_later(0.001, lambda: pytest.fail("a cancelled timer ran")))

    async def main() -> str:
        await net.sleep(0.01)
        return "done"

    assert net.run(main) == "done"


def test_socket_is_read_again_and_again(net: PersistentSelector, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair

    async def main() -> list[bytes]:
        received = []
        for number in range(3):
            theirs.send(b"%d" % number)
            await net.wait_read(ours)
            received.append(ours.recv(10))
        return received

    assert net.run(main) == [b"0", b"1", b"2"]


def test_bytes_that_no_task_reads_do_not_keep_the_loop_busy(
    net: PersistentSelector, pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pair
    turns: list[int] = []
    process_events = net._process_events

    def counted(events: object) -> None:
        turns.append(1)
        process_events(events)

    async def main() -> None:
        theirs.send(b"1")
        await net.wait_read(ours)
        assert ours.recv(10) == b"1"
        theirs.send(b"2")
        monkeypatch.setattr(net, "_process_events", counted)
        await net.sleep(0.05)
        assert len(turns) < 10
        await net.wait_read(ours)
        assert ours.recv(10) == b"2"

    net.run(main)


def test_a_closed_sockets_descriptor_can_be_used_again(net: PersistentSelector) -> None:
    async def exchange() -> int:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            theirs.send(b"x")
            await net.wait_read(ours)
            assert ours.recv(1) == b"x"
            return ours.fileno()

    descriptors = [net.run(exchange) for _ in range(5)]
    assert len(set(descriptors)) < 5


def test_wait_with_a_timeout_ends_with_an_error(
    net: PersistentSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, theirs = pair

    async def main() -> None:
        with pytest.raises(kafka_errors.KafkaTimeoutError):
            await net.wait_read(ours, timeout_at=0.0)
        theirs.send(b"x")
        await net.wait_read(ours)

    net.run(main)
    assert ours.recv(1) == b"x"


def test_two_tasks_cannot_wait_for_one_socket(
    net: PersistentSelector, pair: tuple[socket.socket, socket.socket]
) -> None:
    ours, _ = pair

    async def wait() -> None:
        await net.wait_read(ours)

    async def main() -> None:
        net.call_soon(wait)
        await net.sleep(0.01)
        with pytest.raises(RuntimeError, match="another task waits"):
            await net.wait_read(ours)

    net.run(main)


def test_cancelled_reader_is_not_woken(net: PersistentSelector, pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    woken: list[int] = []

    async def wait() -> None:
        await net.wait_read(ours)
        woken.append(1)

    async def main() -> None:
        task = net.call_soon(wait)
        await net.sleep(0.01)
        net.cancel(task)
        theirs.send(b"x")
        await net.sleep(0.02)
        await net.wait_read(ours)

    net.run(main)
    assert not woken


def test_function_that_raises_does_not_stop_the_loop(net: PersistentSelector) -> None:
    def fails() -> None:
        raise ValueError("a bug")

    net.call_soon(fails)

    async def main() -> str:
        done = Future()
        net.call_later(0.01, lambda: done.success("done"))
        return str(await done)

    assert net.run(main) == "done"
