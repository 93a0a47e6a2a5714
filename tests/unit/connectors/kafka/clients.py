"""Clients for tests on loopback: every host name resolves to it. The fixture `loop` closes them."""

from collections.abc import Mapping
from typing import Any

from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.kafka.resolver import Lookup, Resolver
from rules.model.monitoring import ObservationSource

AMPLE_MS = 60_000
"""Timeout for a response that arrives, even on a busy machine."""
_OPEN: list[Client] = []


def client_of(
    loop: EventLoop,
    options: Mapping[str, str | int | bool | None],
    *,
    timeout_ms: int = AMPLE_MS,
    rate_limiter: RateLimiter | None = None,
    dns: Lookup = lambda _: ("127.0.0.1",),
) -> Client:
    cluster = ClusterConnection(name="a", bootstrap=(("localhost", 1),), options=options, request_timeout_ms=timeout_ms)
    client = Client(loop, cluster, rate_limiter or RateLimiter())
    client.resolver = Resolver(loop, resolve={}, hosts_file=None, dns=dns)
    _OPEN.append(client)
    return client


def close_clients() -> None:
    """Closes those that were made since the last call."""
    while _OPEN:
        _OPEN.pop().close()


def ask(loop: EventLoop, client: Client, port: int, request: Any, *, host: str = "localhost") -> Any:
    return loop.run(lambda: client.send(Address(host, port), request, source=ObservationSource.QUORUM))
