"""A slow path between one controller and the others: proxies on another loopback address that delay every byte."""

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from deploy.lab.addresses import LOOPBACK
from deploy.lab.jars import kafka_jars
from deploy.lab.jvm import Jvm
from tests.lab import Lab

PROXY = "127.0.0.2"


@contextmanager
def slow_path(lab: Lab, node: int, *, delay_s: float, folder: Path) -> Iterator[None]:
    """Restarts a controller whose requests to the others, and their answers, take `delay_s` each during the block.

    The lab must be `named`: the controller gets a hosts file of its own, in which the others have the proxies' address.
    """
    others = [lab.node(each) for each in lab.controllers if each != node]
    hosts = folder / "slow-hosts"
    lines = [f"{LOOPBACK} localhost {lab.node(node).host}", *(f"{PROXY} {each.host}" for each in others)]
    hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    jvm = Jvm(jars=kafka_jars(lab.version), folder=lab.directory, hosts_file=hosts)
    with ExitStack() as stack:
        for each in others:
            assert each.controller_port is not None
            stack.enter_context(_delaying(each.controller_port, delay_s))
        lab.stop(node)
        lab.node(node).launch(jvm, supervised=True)
        try:
            yield
        finally:
            lab.kill(node)
    lab.start(node)


@contextmanager
def _delaying(port: int, delay_s: float) -> Iterator[None]:
    """Forwards connections to PROXY:port to 127.0.0.1:port."""
    listening = socket.create_server((PROXY, port))
    opened = [listening]

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                opened.append(client)
                with suppress(OSError):
                    server = socket.create_connection((LOOPBACK, port))
                    opened.append(server)
                    for pair in ((client, server), (server, client)):
                        threading.Thread(target=_forward, args=(*pair, delay_s), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        for each in opened:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _forward(source: socket.socket, target: socket.socket, delay_s: float) -> None:
    """Forwards bytes, each `delay_s` after it came; the end of the connection too."""
    waiting: queue.Queue[tuple[float, bytes]] = queue.Queue()

    def send() -> None:
        with suppress(OSError):
            while True:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_WR)
                    return
                target.sendall(data)

    threading.Thread(target=send, daemon=True).start()
    data = b" "
    while data:
        try:
            data = source.recv(65_536)
        except OSError:
            data = b""
        waiting.put((time.monotonic() + delay_s, data))
