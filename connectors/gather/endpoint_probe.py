"""The probe: does each voter's endpoint still lead to that voter? Resolve, connect, and ask who answers.

An established connection proves nothing of a name: every look resolves again and opens a connection of its own,
which a controller neither logs nor counts. Who answers is asked with real requests, so only when addresses or
outcome changed, after an answer that told nothing, or once a minute; between, the last answer stands.
"""

from dataclasses import dataclass

from connectors.errors import UnseenError
from connectors.event import EndpointProbed, ObservationFailed
from connectors.gather.node_directory import Place, Whereabouts
from connectors.gather.observation_output import Output
from connectors.kafka.client import Address, Client
from connectors.kafka.event_loop import Loop
from connectors.kafka.messages import describe_node, fetched, knock, node_described
from connectors.kafka.resolver import Resolver
from connectors.kafka.transport import connect
from rules.model.identifiers import NodeId
from rules.model.monitoring import Answer, Connection, ObservationSource, Reason, Resolution

_ASK_EVERY_S = 60.0
_ASK_AGAIN_S = 15.0
"""After an answer that told nothing."""
_NOT_ALLOWED = frozenset({Reason.TLS_FAILED, Reason.NOT_AUTHENTICATED, Reason.DENIED, Reason.NOT_READY})
_CONNECTION = {
    Reason.REFUSED: Connection.REFUSED,
    Reason.TIMED_OUT: Connection.TIMED_OUT,
    Reason.UNREACHABLE: Connection.UNREACHABLE,
    Reason.CLOSED: Connection.REFUSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the last look at a place showed, and when it was asked who answers."""

    addresses: tuple[str, ...]
    answer: Answer
    answered_by: NodeId | None
    detail: str
    ask_at: float


class Probe:
    """Probes one cluster's endpoints. `run` ends only by an exception, and may then be run again."""

    def __init__(
        self,
        loop: Loop,
        client: Client,
        where: Whereabouts,
        output: Output,
        *,
        resolver: Resolver,
        interval_ms: int,
        timeout_ms: int,
    ) -> None:
        self._loop = loop
        self._client = client
        self._where = where
        self._output = output
        self._resolver = resolver
        self._interval_s = interval_ms / 1000
        self._timeout_s = timeout_ms / 1000
        self._known: dict[Place, _Known] = {}

    async def run(self) -> None:
        """Probe until cancelled.

        Raises:
            Exception: a fault of ours; nothing that a cluster does.
        """
        while True:
            started = self._loop.now()
            places = self._where.places()
            self._known = {place: known for place, known in self._known.items() if place in places}
            await self._loop.gather(self._look(place) for place in places)
            # Until the log has told us of the first voter there is nothing to probe: look again soon.
            pause = self._interval_s if places else min(0.2, self._interval_s)
            await self._loop.sleep(started + pause - self._loop.now())

    async def _look(self, place: Place) -> None:
        try:
            addresses = await self._resolver.addresses(place.endpoint.host)
        except UnseenError as problem:
            self._known.pop(place, None)
            if problem.reason is Reason.RESOLVER_FAILED:
                self._say_unseen(place, problem)
            gone = problem.reason is Reason.UNRESOLVABLE
            resolution = Resolution.NAME_GONE if gone else Resolution.RESOLVER_FAILED
            self._say(place, resolution, (), Connection.NOT_TRIED, detail=problem.detail)
            return
        try:
            deadline = self._loop.now() + self._timeout_s
            (await connect(self._loop, addresses, place.endpoint.port, deadline=deadline)).close()
        except UnseenError as problem:
            self._known.pop(place, None)
            connection = _CONNECTION[problem.reason]
            self._say(place, Resolution.RESOLVED, addresses, connection, detail=problem.detail)
            return
        known = self._known.get(place)
        if known is None or set(known.addresses) != set(addresses) or self._loop.now() >= known.ask_at:
            known = self._known[place] = await self._ask(place, addresses)
        self._say(
            place,
            Resolution.RESOLVED,
            addresses,
            Connection.ACCEPTED,
            answer=known.answer,
            answered_by=known.answered_by,
            detail=known.detail,
        )

    async def _ask(self, place: Place, addresses: tuple[str, ...]) -> _Known:
        address = Address(place.endpoint.host, place.endpoint.port)
        answer, answered_by, detail = await self._who(place.node, address)
        self._client.hang_up(ObservationSource.PROBE, address)
        told = answer in (Answer.THIS_CLUSTER, Answer.OTHER_CLUSTER, Answer.OTHER_NODE)
        pause = _ASK_EVERY_S if told else _ASK_AGAIN_S
        return _Known(
            addresses=addresses,
            answer=answer,
            answered_by=answered_by,
            detail=detail,
            ask_at=self._loop.now() + pause,
        )

    async def _who(self, node: NodeId, address: Address) -> tuple[Answer, NodeId | None, str]:
        request = knock(self._where.cluster_id)
        try:
            fetched(await self._client.ask(address, request, lane=ObservationSource.PROBE))
        except UnseenError as problem:
            return _without_answer(problem), None, problem.detail
        if self._where.cluster_id is None:
            return Answer.NOT_ASKED, None, "a Kafka node answers, but we do not know our own cluster's id"
        try:
            answer = await self._client.ask(address, describe_node(node), lane=ObservationSource.PROBE)
        except UnseenError:
            return Answer.THIS_CLUSTER, None, ""
        answered_by = node_described(answer, asked=node)
        if answered_by is not None and answered_by != node:
            return Answer.OTHER_NODE, answered_by, f"node {answered_by} answers here"
        return Answer.THIS_CLUSTER, answered_by, ""

    def _say(
        self,
        place: Place,
        resolution: Resolution,
        addresses: tuple[str, ...],
        connection: Connection,
        *,
        answer: Answer = Answer.NOT_ASKED,
        answered_by: NodeId | None = None,
        detail: str = "",
    ) -> None:
        self._output.probed(
            EndpointProbed(
                node=place.node,
                endpoint=place.endpoint,
                resolution=resolution,
                addresses=addresses,
                connection=connection,
                answer=answer,
                answered_by=answered_by,
                detail=detail,
            )
        )

    def _say_unseen(self, place: Place, problem: UnseenError) -> None:
        self._output.unseen(
            ObservationFailed(
                sight=ObservationSource.PROBE,
                endpoint=str(place.endpoint),
                reason=problem.reason,
                detail=problem.detail,
                node=place.node,
            )
        )


def _without_answer(problem: UnseenError) -> Answer:
    if problem.reason in _NOT_ALLOWED:
        return Answer.NOT_ALLOWED
    if problem.reason is Reason.WRONG_CLUSTER:
        return Answer.OTHER_CLUSTER
    if problem.reason is Reason.UNDECODABLE:
        return Answer.NOT_KAFKA
    if problem.reason is Reason.UNSUPPORTED:
        # It speaks Kafka and does not serve the metadata log: whoever it is, it is not this voter.
        return Answer.OTHER_NODE
    return Answer.NO_ANSWER
