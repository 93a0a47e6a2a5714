"""A checkup: every address of a cluster asked, step by step, all that kraftwatch will ever ask it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError
from connectors.event import QuorumPolled
from connectors.gather.node_directory import Whereabouts
from connectors.gather.observation_writer import wall_ms
from connectors.kafka.client import Address, Client
from connectors.kafka.cluster_id_lookup import ClusterDescribed, ask_cluster
from connectors.kafka.error_classification import classify
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import ApiVersionsRequest
from connectors.kafka.messages import FetchAnswer, describe_quorum, fetched, knock, quorum_described
from connectors.kafka.rate_limiter import Budget
from connectors.kafka.resolver import Resolver
from connectors.kafka.transport import TlsTransport, connect, secure
from rules.model.monitoring import ObservationSource

T = TypeVar("T")
Outcome: TypeAlias = T | UnseenError


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """The transport is up: TCP, and TLS where it is asked for."""

    certificate_ends_at: float | None
    """Seconds since the Unix epoch; None without TLS, or where the certificate is not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """The login is done, where there is one, and ApiVersions is answered."""

    metadata_version: int | None
    """The newest level of the feature metadata.version that this node can work with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """What came of each step at one address, in their order. None: not tried, because a step before it failed."""

    address: Address
    configured: bool
    """Else the quorum names it."""
    resolved: Outcome[tuple[str, ...]]
    secured: Outcome[Secured] | None = None
    served: Outcome[Served] | None = None
    polled: Outcome[QuorumPolled] | None = None
    """DescribeQuorum; NO_LEADER of one that only does not lead."""
    fetched: Outcome[FetchAnswer] | None = None
    """Fetch of the metadata log; a follower's answer names the leader."""
    identified: Outcome[ClusterDescribed] | None = None
    """DescribeCluster: the cluster id, and every controller that is registered."""
    skew_ms: int | None = None
    """How far the leader's clock is ahead of ours."""


def checkups(cluster: Cluster) -> Sequence[Checkup]:
    """Check every configured address, then every controller that they name, blocking for some request timeouts.

    Raises:
        UsageError: an option that we do not know.
    """
    loop = Loop()
    try:
        resolver = Resolver(loop, resolve=cluster.resolve, hosts_file=cluster.hosts_file)
        client = Client(loop, cluster, resolver=resolver, budget=Budget())
        round_ = _Round(loop, client, resolver, cluster)
        try:
            return loop.run(round_.run)
        finally:
            client.close()
    finally:
        loop.close()


class _Round:
    def __init__(self, loop: Loop, client: Client, resolver: Resolver, cluster: Cluster) -> None:
        self._loop = loop
        self._client = client
        self._resolver = resolver
        self._cluster = cluster

    async def run(self) -> Sequence[Checkup]:
        configured = tuple(Address(host, port) for host, port in self._cluster.bootstrap)
        where = Whereabouts(configured=configured, cluster_id=self._cluster.cluster_id)
        found: dict[Address, Checkup] = {}
        registered: list[Address] = []
        # A follower names the leader, the leader all voters, each of them, where we may ask that, all controllers.
        while new := [each for each in dict.fromkeys([*where.candidates(), *registered]) if each not in found]:
            for one in await self._loop.gather(self._check(each, configured=each in configured) for each in new):
                found[one.address] = one
                if isinstance(one.fetched, FetchAnswer):
                    where.heard(one.fetched)
                if isinstance(one.polled, QuorumPolled):
                    where.learn(one.polled)
                if isinstance(one.identified, ClusterDescribed):
                    registered += one.identified.controllers
        return list(found.values())

    async def _check(self, address: Address, *, configured: bool) -> Checkup:
        resolved = await _outcome(lambda: self._resolver.addresses(address.host))
        if isinstance(resolved, UnseenError):
            return Checkup(address=address, configured=configured, resolved=resolved)
        secured = await _outcome(lambda: self._secured(address, resolved))
        if isinstance(secured, UnseenError):
            return Checkup(address=address, configured=configured, resolved=resolved, secured=secured)
        served = await _outcome(lambda: self._served(address))
        if isinstance(served, UnseenError):
            return Checkup(address=address, configured=configured, resolved=resolved, secured=secured, served=served)
        polled = await _outcome(lambda: self._polled(address))
        answered_at_ms = wall_ms()
        fetched_ = await _outcome(lambda: self._fetched(address))
        identified = await _outcome(lambda: ask_cluster(self._client, address))
        return Checkup(
            address=address,
            configured=configured,
            resolved=resolved,
            secured=secured,
            served=served,
            polled=polled,
            fetched=fetched_,
            identified=identified,
            skew_ms=_skew_ms(polled, answered_at_ms) if isinstance(polled, QuorumPolled) else None,
        )

    async def _secured(self, address: Address, addresses: tuple[str, ...]) -> Secured:
        deadline = self._loop.now() + self._cluster.request_timeout_ms / 1000
        sock = await connect(self._loop, addresses, address.port, deadline=deadline)
        transport = await secure(self._loop, sock, address.host, self._cluster.options, deadline=deadline)
        try:
            return Secured(
                certificate_ends_at=transport.certificate_ends_at if isinstance(transport, TlsTransport) else None
            )
        finally:
            transport.abort()

    async def _served(self, address: Address) -> Served:
        request = ApiVersionsRequest(client_software_name="kraftwatch", client_software_version="1")
        answer = await self._client.ask(address, request, lane=ObservationSource.VIEW)
        levels = {each.name: each.max_version for each in getattr(answer, "supported_features", None) or ()}
        return Served(metadata_version=levels.get("metadata.version"))

    async def _polled(self, address: Address) -> QuorumPolled:
        answer = await self._client.ask(address, describe_quorum(), lane=ObservationSource.VIEW)
        return quorum_described(answer, cluster_id=self._cluster.cluster_id, address=address)

    async def _fetched(self, address: Address) -> FetchAnswer:
        request = knock(self._cluster.cluster_id)
        return fetched(await self._client.ask(address, request, lane=ObservationSource.VIEW))


async def _outcome(ask: Callable[[], Awaitable[T]]) -> Outcome[T]:
    try:
        return await ask()
    except Exception as problem:  # noqa: BLE001 - whatever the outside does is an answer, and never has a secret in it
        return classify(problem)


def _skew_ms(polled: QuorumPolled, answered_at_ms: int) -> int | None:
    """By the leader's row of itself, whose times are its own now (KIP-836)."""
    own = next((row for row in polled.voters if row.key.id == polled.leader_id), None)
    if own is None or own.last_caught_up_ms is None:
        return None
    return own.last_caught_up_ms - answered_at_ms
