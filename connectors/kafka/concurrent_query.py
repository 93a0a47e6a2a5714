"""Sends the same query to several addresses concurrently, without waiting for the ones that do not answer."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.event_loop import EventLoop
from rules.model.monitoring import Reason

T = TypeVar("T")
_MAX_AGE_S = 15.0
"""A response that arrives after its round is used in a later round, unless its request is older than this: what a node
reported of the leader hours ago is not current."""


class ConcurrentQuery(Generic[T]):
    """Query rounds. An address that has not answered an earlier round yet is not queried again in the meantime."""

    def __init__(self, loop: EventLoop, send: Callable[[Address], Coroutine[Any, Any, T]]) -> None:
        self._loop = loop
        self._send = send
        self._pending: dict[Address, tuple[asyncio.Task[T], float]] = {}

    @property
    def pending(self) -> frozenset[Address]:
        """Addresses that were queried and have not answered yet."""
        return frozenset(self._pending)

    async def query(
        self, addresses: Iterable[Address], *, timeout_s: float, accept: Callable[[T], bool], since: float = 0.0
    ) -> "dict[Address, T | ObservationError]":
        """Queries all addresses and returns for each its answer, or the error.

        Args:
            timeout_s: the longest duration of the round; an address without an answer by then is TIMED_OUT.
            accept: an answer for which this returns True ends the round at once.
            since: answers to queries sent before this time (the loop's clock) are discarded as outdated.
        """
        # Each once: a configuration may list an address twice.
        requested = tuple(dict.fromkeys(addresses))
        started = self._loop.now()
        for address in requested:
            future, sent_at = self._pending.get(address, (None, 0.0))
            if future is None or (future.done() and sent_at < max(since, started - _MAX_AGE_S)):
                self._pending[address] = (self._loop.spawn(self._send(address)), started)
        queries = [self._pending[address] for address in requested]

        def is_complete() -> bool:
            done = [(one, at) for one, at in queries if one.done()]
            return len(done) == len(queries) or any(
                one.exception() is None and at >= since and accept(one.result()) for one, at in done
            )

        await self._loop.wait_until(is_complete, [one for one, _ in queries], timeout_s)
        return {address: await self._result(address, since) for address in requested}

    async def _result(self, address: Address, since: float) -> "T | ObservationError":
        future, sent_at = self._pending[address]
        if not future.done():
            waited_ms = round((self._loop.now() - sent_at) * 1000)
            return ObservationError(Reason.TIMED_OUT, f"no answer after {waited_ms} ms")
        del self._pending[address]
        try:
            answer = await future
        except ObservationError as problem:
            return problem
        return answer if sent_at >= since else ObservationError(Reason.TIMED_OUT, "the answer came too late")
