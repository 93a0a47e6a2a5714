"""Event loops in several threads: each connection receives its own bytes."""

import socket
import threading

from connectors.kafka.event_loop import EventLoop
from connectors.kafka.transport import PlainTransport

READS = 2_000


class Received:
    """The connection of a transport: notes which bytes it received."""

    _sensors = None

    def __init__(self) -> None:
        self.values: set[int] = set()
        self.count = 0

    def data_received(self, data: bytes) -> None:
        self.values |= set(data)
        self.count += len(data)

    def connection_lost(self, problem: object) -> None:
        pass


def test_bytes_of_another_threads_connection_are_never_delivered() -> None:
    received = [Received() for _ in range(4)]

    def read(number: int) -> None:
        loop = EventLoop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        transport = PlainTransport(loop.net, ours)
        transport.set_protocol(received[number])

        async def main() -> None:
            transport.resume_reading()
            for _ in range(READS):
                theirs.send(bytes([number]) * 500)
                await loop.sleep(0)
            while received[number].count < READS * 500:
                await loop.sleep(0.001)

        with theirs:
            loop.run(main)
            transport.abort()
            loop.close()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(len(received))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [one.values for one in received] == [{number} for number in range(len(received))]
