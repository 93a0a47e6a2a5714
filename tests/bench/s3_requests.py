"""RequestCounter: a proxy in front of an S3 store that counts requests, delays them, and loses answers."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

USD_PER_1000 = {"PUT": 0.005, "COPY": 0.005, "POST": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004, "DELETE": 0.0}
"""The list price of S3 Standard (us-east-1), by kind."""
MINUTES_OF_MONTH = 30 * 24 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request."""

    at_s: float
    """By `time.monotonic`."""
    kind: str
    """A key of `USD_PER_1000`."""
    key: str
    """Of the object or, of a LIST, the prefix."""
    size: int
    """Bytes of the body that was sent."""


@dataclass(slots=True)
class RequestCounter:
    """The proxy. Its requests so far are in `requests`."""

    address: str
    """HOST:PORT at which it listens."""
    requests: list[Request] = field(default_factory=list)
    answers_to_lose: set[str] = field(default_factory=set)
    """Of each of these keys, the answer to the next PUT is lost with its connection."""

    def since(self, at_s: float) -> Sequence[Request]:
        """Returns the requests since a time of `time.monotonic`."""
        return [one for one in list(self.requests) if one.at_s >= at_s]


def counts(requests: Sequence[Request]) -> Mapping[str, int]:
    """Returns the number of requests by kind, without kinds that do not occur."""
    found = Counter(one.kind for one in requests)
    return {kind: found[kind] for kind in USD_PER_1000 if found[kind]}


def usd(by_kind: Mapping[str, float]) -> float:
    """Returns the price of requests, given by kind."""
    return sum(number * USD_PER_1000[kind] / 1_000 for kind, number in by_kind.items())


@contextmanager
def counting_requests(server: str, *, latency_s: float = 0.0) -> Iterator[RequestCounter]:
    """Runs a proxy of the store at HOST:PORT; each request reaches it `latency_s` later."""
    counter = RequestCounter(address="")
    started: Future[Callable[[], object]] = Future()
    thread = threading.Thread(target=lambda: asyncio.run(_serve(counter, server, latency_s, started)), name="s3 proxy")
    thread.start()
    stop = started.result()
    try:
        yield counter
    finally:
        stop()
        thread.join()


async def _serve(
    counter: RequestCounter, store: str, latency_s: float, started: "Future[Callable[[], object]]"
) -> None:
    """Serves until the function is called that `started` gets."""
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A task that nothing refers to may disappear.
        connections.add(asyncio.ensure_future(_pass_connection(reader, writer, counter, store, latency_s)))

    stopped = asyncio.Event()
    listening = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**20)
    counter.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    loop = asyncio.get_running_loop()
    started.set_result(lambda: loop.call_soon_threadsafe(stopped.set))
    await stopped.wait()
    listening.close()
    for connection in connections:
        connection.cancel()
    await asyncio.gather(*connections, return_exceptions=True)


async def _pass_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counter: RequestCounter, store: str, latency_s: float
) -> None:
    host, port = store.split(":")
    from_store, to_store = await asyncio.open_connection(host, int(port))
    lost = asyncio.Event()
    answers = asyncio.ensure_future(_pass_answers(from_store, writer, lost))
    try:
        # A client closes its connection at any time.
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await _pass_request(reader, to_store, counter, latency_s, lost)
    finally:
        answers.cancel()
        for one in (to_store, writer):
            one.close()
            with suppress(ConnectionError):
                await one.wait_closed()


async def _pass_answers(store: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: asyncio.Event) -> None:
    with suppress(ConnectionError):
        while data := await store.read(2**16):
            # Before it sends the body, a client waits for `100 Continue`.
            if lost.is_set() and not data.startswith(b"HTTP/1.1 100"):
                break
            writer.write(data)
            await writer.drain()
    writer.close()


async def _pass_request(
    reader: asyncio.StreamReader,
    to_store: asyncio.StreamWriter,
    counter: RequestCounter,
    latency_s: float,
    lost: asyncio.Event,
) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    assert "transfer-encoding" not in headers, "the proxy reads bodies by their length"
    left = int(headers.get("content-length", "0"))
    request = _request(line, headers, left)
    counter.requests.append(request)
    if request.kind == "PUT" and request.key in counter.answers_to_lose:
        counter.answers_to_lose.remove(request.key)
        lost.set()
    await asyncio.sleep(latency_s)
    to_store.write(head)
    while left:
        data = await reader.read(min(left, 2**16))
        if not data:
            raise ConnectionResetError
        to_store.write(data)
        left -= len(data)
    await to_store.drain()


def _request(line: str, headers: Mapping[str, str], size: int) -> Request:
    method, target, _ = line.split(" ")
    url = urlsplit(target)
    query = parse_qs(url.query, keep_blank_values=True)
    # The bucket is the first part of the path; a request to the bucket itself lists it.
    key = url.path.strip("/").partition("/")[2]
    kind = method
    if method == "GET" and ("list-type" in query or not key):
        kind, key = "LIST", query.get("prefix", [""])[0]
    elif method == "PUT" and "x-amz-copy-source" in headers:
        kind = "COPY"
    return Request(at_s=time.monotonic(), kind=kind, key=key, size=size)
