"""The event loop: its timers, and time limits for answers, which are extended if the loop had much to do."""

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing

import pytest

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.cluster_id_lookup import describe_cluster_request, parse_describe_cluster
from connectors.kafka.concurrent_query import ConcurrentQuery
from connectors.kafka.event_loop import MOST_S, EventLoop, extension_s
from rules.model.monitoring import ObservationSource, Reason
from tests.unit.connectors.kafka.clients import client_of
from tests.unit.connectors.kafka.fake_node import FakeNode, answer_api_versions, never_answers, read_request, send

A = Address("a", 1)


def busy_for(seconds: float) -> None:
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        pass


def test_a_limit_that_ended_late_is_extended_by_no_more_than_is_left() -> None:
    assert extension_s(late_s=0.001, left_s=MOST_S) == 0
    assert extension_s(late_s=1.0, left_s=MOST_S) == 1.0
    assert extension_s(late_s=80.0, left_s=MOST_S - 1.0) == MOST_S - 1.0
    assert extension_s(late_s=80.0, left_s=0.0) == 0


class BusyLoop:
    """Makes each turn of a loop long, as a thousand clusters do."""

    def __init__(
        self, loop: EventLoop, *, turns: int, seconds: float, before_last: Callable[[], None] = lambda: None
    ) -> None:
        self._loop, self._turns, self._seconds, self._before_last = loop, turns, seconds, before_last

    def work(self) -> None:
        if self._turns == 1:
            self._before_last()
        busy_for(self._seconds)
        self._turns -= 1
        if self._turns:
            self._loop.asyncio.call_soon(self.work)


def test_answers_that_a_busy_loop_reads_late_are_not_late(loop: EventLoop) -> None:
    """Each of three answers is there at once. The loop reads them in turns of 150 ms; the limit is 200 ms."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    async def ask(_: Address) -> str:
        for _round in range(3):
            theirs.send(b"answer")
            await loop.asyncio.sock_recv(ours, 10)
            await loop.sleep(0)
        return "answered"

    async def main() -> object:
        query = ConcurrentQuery(loop, ask)
        BusyLoop(loop, turns=12, seconds=0.15).work()
        return (await query.query([A], timeout_s=0.2, accept=lambda _: True))[A]

    with closing(ours), closing(theirs):
        assert loop.run(main) == "answered"


@pytest.mark.parametrize("answers", [True, False])
def test_the_time_limit_of_a_request_is_extended_too(loop: EventLoop, answers: bool) -> None:
    """The limit is 300 ms; the loop is busy for 600 ms, in which the node answers, after 450 ms, or does not."""
    received, busy_for_long = threading.Event(), threading.Event()

    def behaviour(peer: socket.socket) -> None:
        answer_api_versions(peer)
        _, _, correlation = read_request(peer)
        received.set()
        if answers:
            assert busy_for_long.wait(60)
            body = struct.pack(">ih", 0, 0) + b"\0" + b"\x02\x02x" + struct.pack(">i", 1) + b"\x01"
            send(peer, correlation, body + struct.pack(">i", -(2**31)) + b"\0", flexible=True)
        never_answers(peer)

    async def main(port: int) -> object:
        def busy() -> None:
            assert received.wait(60)
            BusyLoop(loop, turns=4, seconds=0.15, before_last=busy_for_long.set).work()

        asked = loop.spawn(
            client.send(
                Address("localhost", port),
                describe_cluster_request(controllers=True),
                source=ObservationSource.QUORUM,
            )
        )
        loop.call_later(0.1, busy)
        try:
            return parse_describe_cluster(await asked).cluster_id
        except ObservationError as problem:
            return problem.reason

    client = client_of(loop, {}, timeout_ms=300)
    with FakeNode(behaviour).up() as port:
        assert loop.run(lambda: main(port)) == ("x" if answers else Reason.TIMED_OUT)
