"""The endpoint probe: does each voter's endpoint still resolve to that voter? It resolves, connects and identifies.

An established connection does not show that its host name still resolves: every probe resolves again and opens a new
connection, which a controller neither logs nor counts. The node is identified with real requests, so only if the
addresses or the outcome changed, or a connection to it ended, after an inconclusive answer (at once, then every 15 s),
and every 30 s, on a connection of its own; in between the last answer is used.

An endpoint that refuses connections is tried ten times a second, for an hour after it was last found to accept one: a
controller that ends at each start, such as one with a damaged snapshot, accepts connections for a fifth of a second.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from connectors.errors import ObservationError
from connectors.gather.node_directory import NodeDirectory, ProbeTarget
from connectors.gather.observation_writer import ObservationWriter, failure
from connectors.kafka.client import Client, short_client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.messages import (
    describe_node_request,
    fetch_request,
    parse_fetch,
    parse_node_id,
    parse_settings,
)
from connectors.kafka.transport import connect
from rules.model.identifiers import NodeId
from rules.model.monitoring import (
    ConnectionResult,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
    ServerCertificate,
)

_IDENTIFY_EVERY_S = 30.0
"""No longer than a probe counts as current (`probe_age`): a node may stop serving new connections."""
_IDENTIFY_RETRY_S = 15.0
"""After a second inconclusive answer."""
_AGAIN_S = 0.1
"""How often an endpoint that refuses connections is tried between two probes."""
_AGAIN_FOR_S = 3_600.0
"""For how long. A node that is down for good costs no more than any other then; a supervisor waits five minutes."""
_ANSWER = {
    **dict.fromkeys(
        (Reason.TLS_FAILED, Reason.NOT_AUTHENTICATED, Reason.DENIED, Reason.NOT_READY), ProbeAnswer.NOT_ALLOWED
    ),
    Reason.WRONG_PROTOCOL: ProbeAnswer.NOT_ALLOWED,
    Reason.TOO_FEW_DESCRIPTORS: ProbeAnswer.NOT_ASKED,
    Reason.WRONG_CLUSTER: ProbeAnswer.OTHER_CLUSTER,
    Reason.UNDECODABLE: ProbeAnswer.NOT_KAFKA,
    Reason.INVALID_RESPONSE: ProbeAnswer.NOT_KAFKA,
    # The node speaks Kafka and does not serve the metadata log, so it is not this voter.
    Reason.UNSUPPORTED: ProbeAnswer.OTHER_NODE,
}
_CONNECTION = {
    Reason.REFUSED: ConnectionResult.REFUSED,
    Reason.TIMED_OUT: ConnectionResult.TIMED_OUT,
    Reason.UNREACHABLE: ConnectionResult.UNREACHABLE,
    Reason.CLOSED: ConnectionResult.REFUSED,
}


class _Identified(NamedTuple):
    """The newest identification of the node at an endpoint. Times are in seconds of the loop's clock."""

    probe: Probe
    at: float
    again_at: float
    """When the node is identified again."""


class EndpointProbe:
    """Probes one cluster's endpoints. `run` ends only because of a bug, and can then be called again."""

    def __init__(self, client: Client, nodes: NodeDirectory) -> None:
        self._loop = client.loop
        self._client = client
        self._nodes = nodes
        self._results: dict[ProbeTarget, _Identified] = {}
        """By endpoint that accepts connections."""
        self._refuses_since: dict[ProbeTarget, float] = {}
        """By endpoint that refuses them: since when, or when it was last found to accept one since."""

    async def run(self, output: ObservationWriter, *, interval_ms: int = 5_000) -> None:
        """Probes until cancelled, and writes the results."""
        while True:
            started = self._loop.now()
            targets = self._nodes.probe_targets()
            self._results = {target: result for target, result in self._results.items() if target in targets}
            self._refuses_since = {target: at for target, at in self._refuses_since.items() if target in targets}
            # Before the log or a poll reports the first voter there is nothing to probe: check again soon.
            due = started + (interval_ms / 1000 if targets else min(0.2, interval_ms / 1000))
            await self._loop.gather(self._write_probe(target, output, due) for target in targets)
            await self._loop.sleep(due - self._loop.now())

    async def _write_probe(self, target: ProbeTarget, output: ObservationWriter, due: float) -> None:
        """Writes one probe; of an endpoint that refuses connections also what is there until the next one is due."""
        probed, problem = await self.probe(target)
        if problem is not None:
            output.write_failure(failure(ObservationSource.PROBE, target.endpoint, problem, node=target.node))
        if probed is None:
            return
        output.write_probe(probed)
        if probed.connection is not ConnectionResult.REFUSED:
            self._refuses_since.pop(target, None)
        elif self._loop.now() - self._refuses_since.setdefault(target, self._loop.now()) < _AGAIN_FOR_S:
            await self._write_starts(target, probed, output, due)

    async def _write_starts(self, target: ProbeTarget, refused: Probe, output: ObservationWriter, due: float) -> None:
        """Writes when an endpoint that refuses connections accepts one, and when it refuses them again."""
        listens = False
        while self._loop.now() + _AGAIN_S < due:
            await self._loop.sleep(_AGAIN_S)
            try:
                (await connect(self._loop, refused.addresses, target.endpoint.port, deadline=due)).close()
            except ObservationError as problem:
                if _CONNECTION.get(problem.reason) is not ConnectionResult.REFUSED:
                    return
                if listens:
                    self._results.pop(target, None)
                    output.write_probe(refused)
                listens = False
                continue
            if not listens:
                listens, self._refuses_since[target] = True, self._loop.now()
                found = self._results[target] = await self._identify(target, replace(refused, detail=""))
                output.write_probe(found.probe)
                if found.probe.answer is not ProbeAnswer.NO_ANSWER:
                    return

    async def probe(self, target: ProbeTarget) -> tuple[Probe | None, ObservationError | None]:
        """Returns the result of one endpoint, or None if nothing is known of it, and what failed on this host."""
        probed = Probe(
            node=target.node,
            endpoint=target.endpoint,
            resolution=Resolution.RESOLVED,
            addresses=(),
            connection=ConnectionResult.NOT_TRIED,
            answer=ProbeAnswer.NOT_ASKED,
            answered_by=None,
            detail="",
        )
        try:
            addresses = await self._client.resolver.addresses(target.endpoint.host)
        except ObservationError as problem:
            self._results.pop(target, None)
            resolver_failed = problem.reason is Reason.RESOLVER_FAILED
            not_found = problem.reason is Reason.UNRESOLVABLE
            resolution = Resolution.NAME_NOT_FOUND if not_found else Resolution.RESOLVER_FAILED
            return replace(probed, resolution=resolution, detail=problem.detail), problem if resolver_failed else None
        probed = replace(probed, addresses=addresses)
        try:
            deadline = self._loop.now() + self._client.setup_s
            (await connect(self._loop, addresses, target.endpoint.port, deadline=deadline)).close()
        except ObservationError as problem:
            self._results.pop(target, None)
            if problem.reason is Reason.TOO_FEW_DESCRIPTORS:
                return None, problem
            return replace(probed, connection=_CONNECTION[problem.reason], detail=problem.detail), None
        last = self._results.get(target)
        if last is None or set(last.probe.addresses) != set(addresses) or self._is_due(target, last):
            last = self._results[target] = await self._identify(target, probed)
        return replace(last.probe, addresses=addresses), None

    def _is_due(self, target: ProbeTarget, last: _Identified) -> bool:
        """Returns whether the node is identified again: a process that has restarted may have other settings."""
        address = Address(target.endpoint.host, target.endpoint.port)
        return self._loop.now() >= last.again_at or self._client.has_ended_since(address, last.at)

    async def _identify(self, target: ProbeTarget, probed: Probe) -> _Identified:
        address = Address(target.endpoint.host, target.endpoint.port)
        identified = await self._identified(target.node, address, replace(probed, connection=ConnectionResult.ACCEPTED))
        self._client.disconnect(ObservationSource.PROBE, address)
        conclusive = identified.answer in (ProbeAnswer.THIS_CLUSTER, ProbeAnswer.OTHER_CLUSTER, ProbeAnswer.OTHER_NODE)
        # A first request that timed out on a busy host is sent again by the next probe.
        first = target not in self._results
        pause = _IDENTIFY_EVERY_S if conclusive else 0.0 if first else _IDENTIFY_RETRY_S
        now = self._loop.now()
        return _Identified(probe=identified, at=now, again_at=now + pause)

    async def _identified(self, node: NodeId, address: Address, probed: Probe) -> Probe:
        request = fetch_request(cluster_id=self._nodes.cluster_id)
        try:
            parse_fetch(await self._client.send(address, request, source=ObservationSource.PROBE))
        except ObservationError as problem:
            answer = ProbeAnswer.LATE if problem.late else _ANSWER.get(problem.reason, ProbeAnswer.NO_ANSWER)
            certificate = self._client.server_certificate(ObservationSource.PROBE, address)
            if (
                certificate is None
                and answer is ProbeAnswer.NOT_ALLOWED
                and problem.reason is not Reason.WRONG_PROTOCOL
            ):
                certificate = await self._refused_certificate(address, problem)
            return replace(probed, answer=answer, detail=problem.detail, reason=problem.reason, certificate=certificate)
        probed = replace(probed, certificate=self._client.server_certificate(ObservationSource.PROBE, address))
        if self._nodes.cluster_id is None:
            return replace(probed, detail="a Kafka node answers, but the id of this cluster is not known")
        probed = replace(probed, answer=ProbeAnswer.THIS_CLUSTER)
        try:
            request = describe_node_request(node, listener=probed.endpoint.listener)
            response = await self._client.send(address, request, source=ObservationSource.PROBE)
        except ObservationError:
            return probed
        answered_by = parse_node_id(response, requested=node)
        if answered_by is not None and answered_by != node:
            detail = f"node {answered_by} answers here"
            return replace(probed, answer=ProbeAnswer.OTHER_NODE, answered_by=answered_by, detail=detail)
        settings = parse_settings(response, probed.endpoint.listener)
        return replace(probed, answered_by=answered_by, settings=settings)

    async def _refused_certificate(self, address: Address, problem: ObservationError) -> ServerCertificate | None:
        """Returns the certificate of a node to which no connection is open: TLS or the login failed."""
        presented = await self._client.presented_certificate(address)
        if presented is None:
            fault = problem.certificate_fault
            return None if fault is None else ServerCertificate(valid_from_ms=None, expires_at_ms=None, fault=fault)
        # The login comes after the handshake, in which the certificate was verified.
        verified = problem.reason is not Reason.TLS_FAILED
        return replace(presented, fault=problem.certificate_fault, verified=verified)


def probe_once(
    cluster: ClusterConnection, targets: Sequence[ProbeTarget], *, within_s: float
) -> Mapping[ProbeTarget, Probe]:
    """Returns the result for each target, with the cluster's login and name resolution; absent if it took longer."""
    probes: dict[ProbeTarget, Probe] = {}
    with short_client(cluster) as (loop, client):
        nodes = NodeDirectory(configured=(), cluster_id=cluster.cluster_id)
        probe = EndpointProbe(client, nodes)

        async def keep(target: ProbeTarget) -> None:
            probed, _ = await probe.probe(target)
            if probed is not None:
                probes[target] = probed

        async def probe_all() -> None:
            futures = [loop.spawn(keep(target)) for target in targets]
            await loop.wait_until(lambda: all(future.done() for future in futures), futures, within_s)

        loop.run(probe_all)
    return probes
