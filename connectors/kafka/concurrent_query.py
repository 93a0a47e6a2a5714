"""A sweep: ask several addresses the same thing side by side, and never wait for the silent ones."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic, TypeVar

from connectors.errors import UnseenError
from connectors.kafka.client import Address
from connectors.kafka.event_loop import Loop, Outcome
from rules.model.monitoring import Reason

T = TypeVar("T")
_FRESH_S = 5.0
"""An answer that came after its round counts in a later one, but not when nobody asked for so long: what was said
of a leader hours ago must not be taken for now."""


class Sweep(Generic[T]):
    """Rounds of asking. An address that has not answered the round before is not asked again meanwhile."""

    def __init__(self, loop: Loop, ask: Callable[[Address], Coroutine[Any, Any, T]]) -> None:
        self._loop = loop
        self._ask = ask
        self._pending: dict[Address, tuple[Outcome[T], float]] = {}
        self._done_at: dict[Address, float] = {}

    @property
    def pending(self) -> frozenset[Address]:
        """Asked, and silent so far."""
        return frozenset(self._pending)

    async def round(
        self, addresses: Iterable[Address], *, seconds: float, good: Callable[[T], bool], since: float = 0.0
    ) -> "dict[Address, T | UnseenError]":
        """Ask them all.

        Args:
            addresses: whom.
            seconds: no longer than this; who is silent until then is TIMED_OUT in this round.
            good: an answer that ends the round at once.
            since: an answer to what was asked before this moment (the loop's clock) is none: somebody said newer.

        Returns:
            Each address with its answer, or why there is none.

        Raises:
            Exception: what asking raised and is no UnseenError.
        """
        wanted = tuple(addresses)
        started = self._loop.now()
        for address in wanted:
            if address not in self._pending or self._is_old(address, started, since):
                self._done_at.pop(address, None)
                self._pending[address] = (self._loop.spawn(self._timed(address)), started)
        asked = [self._pending[address] for address in wanted]

        def enough() -> bool:
            done = [(one, at) for one, at in asked if one.done]
            return len(done) == len(asked) or any(one.succeeded and at >= since and good(one.value) for one, at in done)

        await self._loop.until(enough, [one for one, _ in asked], seconds)
        return {address: await self._verdict(address, since) for address in wanted}

    async def _timed(self, address: Address) -> T:
        try:
            return await self._ask(address)
        finally:
            self._done_at[address] = self._loop.now()

    def _is_old(self, address: Address, now: float, since: float) -> bool:
        done_at = self._done_at.get(address)
        return done_at is not None and (now - done_at > _FRESH_S or self._pending[address][1] < since)

    async def _verdict(self, address: Address, since: float) -> "T | UnseenError":
        outcome, asked_at = self._pending[address]
        if not outcome.done:
            waited_ms = round((self._loop.now() - asked_at) * 1000)
            return UnseenError(Reason.TIMED_OUT, f"no answer yet after {waited_ms} ms")
        del self._pending[address]
        self._done_at.pop(address, None)
        try:
            answer = await outcome.get()
        except UnseenError as problem:
            return problem
        return answer if asked_at >= since else UnseenError(Reason.TIMED_OUT, "its answer came too late")
