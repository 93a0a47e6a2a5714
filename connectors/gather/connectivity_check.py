"""Checks every address of a cluster step by step, with the same requests that the gatherer sends later."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest

from connectors.errors import ObservationError
from connectors.gather.node_directory import NodeDirectory
from connectors.kafka.client import Client, short_client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.cluster_id_lookup import ClusterDescription, query_cluster
from connectors.kafka.error_classification import classify
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.messages import (
    FetchResult,
    describe_quorum_request,
    empty_fetch_request,
    parse_describe_quorum,
    parse_fetch,
)
from connectors.kafka.transport import TlsTransport, connect, secure
from connectors.observations.observation import QuorumPolled
from connectors.wall_clock import wall_ms
from rules.model.monitoring import ObservationSource

T = TypeVar("T")
StepResult: TypeAlias = T | ObservationError


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportCheck:
    """Result of opening the transport: TCP, and TLS if configured."""

    certificate_expires_at: float | None
    """Seconds since the Unix epoch; None without TLS, or if the certificate is not verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVersionsCheck:
    """Result of login, if configured, and ApiVersions."""

    metadata_version: int | None
    """The highest level of the feature metadata.version that this node supports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectivityCheck:
    """The result of each step at one address, in order. None: not tried, because an earlier step failed."""

    address: Address
    configured: bool
    """False: the address was reported by a node."""
    addresses: StepResult[tuple[str, ...]]
    transport: StepResult[TransportCheck] | None = None
    api_versions: StepResult[ApiVersionsCheck] | None = None
    quorum: StepResult[QuorumPolled] | None = None
    """DescribeQuorum; NO_LEADER if the node is not the leader."""
    fetch: StepResult[FetchResult] | None = None
    """Fetch of the metadata log; a follower's response names the leader."""
    cluster: StepResult[ClusterDescription] | None = None
    """DescribeCluster: the cluster id and every registered controller."""
    skew_ms: int | None = None
    """How far the leader's clock is ahead of this machine's clock."""


def check_connectivity(cluster: ClusterConnection) -> Sequence[ConnectivityCheck]:
    """Checks every configured address, then every controller that they report. Blocks for some request timeouts."""
    with short_client(cluster) as (loop, client):
        return loop.run(_Checker(loop, client, cluster).run)


class _Checker:
    def __init__(self, loop: EventLoop, client: Client, cluster: ClusterConnection) -> None:
        self._loop = loop
        self._client = client
        self._cluster = cluster

    async def run(self) -> Sequence[ConnectivityCheck]:
        configured = tuple(Address(host, port) for host, port in self._cluster.bootstrap)
        nodes = NodeDirectory(configured=configured, cluster_id=self._cluster.cluster_id)
        checks: dict[Address, ConnectivityCheck] = {}
        registered: list[Address] = []
        # A follower reports the leader, the leader all voters, and a controller that permits DescribeCluster all
        # controllers.
        while new := [each for each in dict.fromkeys([*nodes.candidates(), *registered]) if each not in checks]:
            for one in await self._loop.gather(self._check(each, configured=each in configured) for each in new):
                checks[one.address] = one
                if isinstance(one.fetch, FetchResult):
                    nodes.update_from_fetch(one.fetch)
                if isinstance(one.quorum, QuorumPolled):
                    nodes.update_from_event(one.quorum)
                if isinstance(one.cluster, ClusterDescription):
                    registered += one.cluster.controllers
        return list(checks.values())

    async def _check(self, address: Address, *, configured: bool) -> ConnectivityCheck:
        found = await _result(lambda: self._client.resolver.addresses(address.host))
        check = ConnectivityCheck(address=address, configured=configured, addresses=found)
        if isinstance(found, ObservationError):
            return check
        check = replace(check, transport=await _result(lambda: self._open_transport(address, found)))
        if isinstance(check.transport, ObservationError):
            return check
        check = replace(check, api_versions=await _result(lambda: self._request_api_versions(address)))
        if isinstance(check.api_versions, ObservationError):
            return check
        quorum = await _result(lambda: self._describe_quorum(address))
        return replace(
            check,
            quorum=quorum,
            skew_ms=_skew_ms(quorum, wall_ms()) if isinstance(quorum, QuorumPolled) else None,
            fetch=await _result(lambda: self._fetch(address)),
            cluster=await _result(lambda: query_cluster(self._client, address)),
        )

    async def _open_transport(self, address: Address, addresses: tuple[str, ...]) -> TransportCheck:
        deadline = self._loop.now() + self._cluster.request_timeout_ms / 1000
        sock = await connect(self._loop, addresses, address.port, deadline=deadline)
        transport = await secure(self._loop, sock, address.host, self._cluster.options, deadline=deadline)
        try:
            certificate = transport.certificate() if isinstance(transport, TlsTransport) else None
            expires_at_ms = None if certificate is None else certificate.expires_at_ms
            return TransportCheck(certificate_expires_at=None if expires_at_ms is None else expires_at_ms / 1000)
        finally:
            transport.abort()

    async def _request_api_versions(self, address: Address) -> ApiVersionsCheck:
        request = ApiVersionsRequest(client_software_name="kraftwatch", client_software_version="1")
        answer = await self._client.send(address, request, source=ObservationSource.LEADER_VIEW)
        levels = {each.name: each.max_version for each in getattr(answer, "supported_features", None) or ()}
        return ApiVersionsCheck(metadata_version=levels.get("metadata.version"))

    async def _describe_quorum(self, address: Address) -> QuorumPolled:
        answer = await self._client.send(address, describe_quorum_request(), source=ObservationSource.LEADER_VIEW)
        return parse_describe_quorum(answer, cluster_id=self._cluster.cluster_id, address=address)

    async def _fetch(self, address: Address) -> FetchResult:
        request = empty_fetch_request(self._cluster.cluster_id)
        return parse_fetch(await self._client.send(address, request, source=ObservationSource.LEADER_VIEW))


async def _result(step: Callable[[], Awaitable[T]]) -> StepResult[T]:
    try:
        return await step()
    except Exception as problem:  # noqa: BLE001 - every failure is a result; classify() removes secrets
        return classify(problem)


def _skew_ms(polled: QuorumPolled, answered_at_ms: int) -> int | None:
    """Computed from the leader's own row, whose timestamps are its current time (KIP-836)."""
    own = next((row for row in polled.voters if row.key.id == polled.leader_id), None)
    if own is None or own.last_caught_up_ms is None:
        return None
    return own.last_caught_up_ms - answered_at_ms
