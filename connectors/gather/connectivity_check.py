"""Checks every address of a cluster step by step, with the same requests that the gatherer sends later."""

from collections.abc import Awaitable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeAlias, TypeVar

from kafka.protocol.metadata import ApiVersionsRequest

from connectors.errors import ObservationError
from connectors.gather.node_directory import NodeDirectory
from connectors.kafka.client import Client, short_client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.cluster_id_lookup import ClusterDescription, query_cluster
from connectors.kafka.error_classification import classify
from connectors.kafka.messages import (
    FetchResult,
    describe_quorum_request,
    fetch_request,
    parse_describe_quorum,
    parse_fetch,
)
from connectors.process.wall_clock import wall_ms
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource
from rules.model.replica import Poll

ConnectivityStep: TypeAlias = Literal["dns", "connection", "login"]
T = TypeVar("T")
StepResult: TypeAlias = T | ObservationError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectivityCheck:
    """The result of each step at one address, in order: name resolution, connection, login, then three requests."""

    address: Address
    configured: bool
    """False: the address was reported by a node."""
    failure: tuple[ConnectivityStep, ObservationError] | None = None
    """The step before the requests that failed: no later one was tried."""
    addresses: tuple[str, ...] = ()
    one_of: bool = False
    """Its host has several addresses, which may be several nodes: this is the check of the one in `addresses`."""
    certificate_expires_at_ms: Millis | None = None
    """None without TLS, or if the certificate cannot be decoded."""
    metadata_version: int | None = None
    """The highest level of the feature metadata.version that this node supports."""
    quorum: StepResult[Poll] | None = None
    """DescribeQuorum; NO_LEADER if the node is not the leader. None: not tried."""
    fetch: StepResult[FetchResult] | None = None
    """Fetch of the metadata log; a follower's response names the leader."""
    cluster: StepResult[ClusterDescription] | None = None
    """DescribeCluster: the cluster id and every registered controller."""
    skew_ms: int | None = None
    """How far the leader's clock is ahead of this machine's clock."""
    took_ms: int | None = None
    """How long all of it took."""

    @property
    def place(self) -> str:
        """What was checked, for people."""
        return f"{self.address} ({self.addresses[0]})" if self.one_of else str(self.address)


def check_connectivity(cluster: ClusterConnection) -> Sequence[ConnectivityCheck]:
    """Checks every configured address, then every controller that they report. Blocks for some request timeouts."""
    with short_client(cluster) as (loop, client):
        return loop.run(_Checker(client, cluster).run)


class _Checker:
    def __init__(self, client: Client, cluster: ClusterConnection) -> None:
        self._loop = client.loop
        self._client = client
        self._cluster = cluster

    async def run(self) -> Sequence[ConnectivityCheck]:
        configured = tuple(Address(host, port) for host, port in self._cluster.bootstrap)
        nodes = NodeDirectory(configured=configured, cluster_id=self._cluster.cluster_id)
        checks: dict[Address, Sequence[ConnectivityCheck]] = {}
        registered: list[Address] = []
        # A follower reports the leader, the leader all voters, and a controller that permits DescribeCluster all
        # controllers.
        while new := [
            fromkey for fromkey in dict.fromkeys([*nodes.candidates(), *registered]) if fromkey not in checks
        ]:
            found = await self._loop.gather(self._checks(address, configured=address in configured) for address in new)
            checks.update(zip(new, found, strict=True))
            for check in chain.from_iterable(found):
                if isinstance(check.fetch, FetchResult):
                    nodes.update_from_fetch(check.fetch)
                if isinstance(check.quorum, Poll):
                    nodes.update_from_event(check.quorum)
                if isinstance(check.cluster, ClusterDescription):
                    registered += check.cluster.controllers
        return [*chain.from_iterable(checks.values())]

    async def _checks(self, address: Address, *, configured: bool) -> Sequence[ConnectivityCheck]:
        """Checks an address; of a host with several addresses each, as if it had only this one.

        One IPv4 and one IPv6 address are a host's own: it may listen at one of them.
        """
        with suppress(ObservationError):
            addresses = await self._client.resolver.addresses(address.host)
            alike = [one for one in addresses if (":" in one) == (":" in addresses[0])]
            if len(alike) > 1:
                return await self._loop.gather(self._check_at(address, one, configured=configured) for one in alike)
        return [await self._timed(self._check(address, configured=configured))]

    async def _check_at(self, address: Address, one: str, *, configured: bool) -> ConnectivityCheck:
        cluster = replace(self._cluster, resolve={**self._cluster.resolve, address.host: one})
        with closing(Client(self._loop, cluster, self._client.rate_limiter)) as client:
            check = await self._timed(_Checker(client, cluster)._check(address, configured=configured))
            return replace(check, addresses=(one,), one_of=True)

    async def _timed(self, checking: Awaitable[ConnectivityCheck]) -> ConnectivityCheck:
        began = self._loop.now()
        return replace(await checking, took_ms=round((self._loop.now() - began) * 1_000))

    async def _check(self, address: Address, *, configured: bool) -> ConnectivityCheck:
        check = ConnectivityCheck(address=address, configured=configured)
        step: ConnectivityStep = "dns"
        try:
            check = replace(check, addresses=await self._client.resolver.addresses(address.host))
            step = "connection"
            check = replace(check, certificate_expires_at_ms=await self._certificate_expiry(check))
            step = "login"
            check = replace(check, metadata_version=await self._metadata_version(address))
        except Exception as problem:  # noqa: BLE001 - every failure is a result; classify() removes secrets
            return replace(check, failure=(step, classify(problem)))
        quorum = await _result(self._describe_quorum(address))
        return replace(
            check,
            quorum=quorum,
            skew_ms=_skew_ms(quorum, wall_ms()) if isinstance(quorum, Poll) else None,
            fetch=await _result(self._fetch(address)),
            cluster=await _result(query_cluster(self._client, address)),
        )

    async def _certificate_expiry(self, check: ConnectivityCheck) -> Millis | None:
        """Opens the transport: TCP, and TLS if configured."""
        transport = await self._client.open_transport(check.addresses, check.address)
        try:
            certificate = transport.certificate()
            return None if certificate is None else certificate.expires_at_ms
        finally:
            transport.abort()

    async def _metadata_version(self, address: Address) -> int | None:
        """Logs in, if configured, and sends ApiVersions."""
        request = ApiVersionsRequest(client_software_name="kraftwatch", client_software_version="1")
        answer = await self._client.send(address, request, source=ObservationSource.LEADER_VIEW)
        levels = {each.name: each.max_version for each in getattr(answer, "supported_features", None) or ()}
        return levels.get("metadata.version")

    async def _describe_quorum(self, address: Address) -> Poll:
        answer = await self._client.send(address, describe_quorum_request(), source=ObservationSource.LEADER_VIEW)
        return parse_describe_quorum(answer, cluster_id=self._cluster.cluster_id, address=address)

    async def _fetch(self, address: Address) -> FetchResult:
        request = fetch_request(cluster_id=self._cluster.cluster_id)
        answer = await self._client.send(address, request, source=ObservationSource.LEADER_VIEW)
        return parse_fetch(answer, address)


async def _result(request: Awaitable[T]) -> StepResult[T]:
    try:
        return await request
    except Exception as problem:  # noqa: BLE001 - as above
        return classify(problem)


def _skew_ms(polled: Poll, answered_at_ms: int) -> int | None:
    """Computed from the leader's own row, whose timestamps are its current time (KIP-836)."""
    own = next((row for row in polled.voters if row.key.id == polled.leader_id), None)
    if own is None or own.last_caught_up_ms is None:
        return None
    return own.last_caught_up_ms - answered_at_ms
