"""The first contact with a cluster: one node at a time, until a node has answered a request in the configured protocol.

Wrong settings must not reach every voter at once. A plaintext listener reads a TLS ClientHello as the length of a
request, 369 MB: with a raised `socket.request.max.bytes` the controller reserves it, and may run out of memory. So a
node is asked without TLS before the first ClientHello; one that uses TLS rejects that, and logs it.

A node that refuses, does not resolve, or does not answer soon does not hold up the others.
"""

import asyncio
from typing import Final

from connectors.errors import ObservationError
from connectors.kafka.cluster_connection import Address
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import WRONG_PROTOCOL_S
from rules.model.monitoring import Reason

_ACCEPT_S: Final = 0.3
"""How long the others wait for a TCP connection. Nothing is sent before it is accepted."""
_ANSWER_S: Final = 1.0
"""How long they wait, from then on, for TLS, login and the first answer."""


class Visit:
    """One attempt to contact a node. While the protocol is not proved, the others wait until it ends or takes long."""

    def __init__(self, gate: "ProtocolGate", ended: "asyncio.Future[None]") -> None:
        """`ended`: to be done once the visit has ended."""
        self._gate = gate
        self.ended = ended

    async def connected(self) -> None:
        """Returns when bytes may be sent: the node has accepted the TCP connection.

        Raises:
            ObservationError: WRONG_PROTOCOL, another node has shown it meanwhile.
        """
        await self._gate.wait_for_turn(self, _ANSWER_S)

    def end(self) -> None:
        """Lets the next one begin."""
        if not self.ended.done():
            self.ended.set_result(None)


class ProtocolGate:
    """Who may contact a node of one cluster. For use in the event loop's thread."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._proved = False
        self.tls_seen = False
        """Whether a node has answered with TLS."""
        self._visit: Visit | None = None
        self._until = 0.0
        """When the current visit has taken too long (the loop's clock)."""
        self._problem: ObservationError | None = None
        self._closed_until = 0.0

    @property
    def is_proved(self) -> bool:
        """Whether a node has answered a request in the configured protocol."""
        return self._proved

    def problem(self) -> ObservationError | None:
        """Returns why no node may be contacted now; None if one may be."""
        closed = self._problem is not None and self._loop.now() < self._closed_until
        return self._problem.copy() if closed and self._problem is not None else None

    async def enter(self) -> Visit:
        """Returns a new visit, when no other one is under way. `end` must be called.

        Raises:
            ObservationError: WRONG_PROTOCOL, a node has shown it within the last minutes.
        """
        visit = Visit(self, self._loop.asyncio.create_future())
        await self.wait_for_turn(visit, _ACCEPT_S)
        return visit

    async def wait_for_turn(self, visit: Visit, seconds: float) -> None:
        """Waits until no other visit is under way, and makes this one the current one for so many seconds."""
        while not self._proved:
            if (problem := self.problem()) is not None:
                raise problem
            other = self._visit
            left_s = self._until - self._loop.now()
            if other is None or other is visit or other.ended.done() or left_s <= 0:
                self._visit, self._until = visit, self._loop.now() + seconds
                return
            await self._loop.wait_until(other.ended.done, (other.ended,), left_s)

    def prove(self) -> None:
        """A node has answered a request: from now on the nodes are contacted independently of each other."""
        if self._proved:
            return
        self._proved = True
        if self._visit is not None:
            self._visit.end()

    def fail(self, address: Address, failure: ObservationError) -> ObservationError:
        """Notes a failed attempt, and returns what to report of it; a wrong protocol keeps all others away."""
        if self._proved or failure.reason is not Reason.WRONG_PROTOCOL:
            return failure
        if (problem := self.problem()) is None:
            minutes = round(WRONG_PROTOCOL_S / 60)
            detail = f"{failure.detail}; {address} shows it, and no node gets a request for {minutes} minutes"
            problem = ObservationError(Reason.WRONG_PROTOCOL, detail)
            self._problem, self._closed_until = problem, self._loop.now() + WRONG_PROTOCOL_S
        return problem.copy()
