"""Identity: which cluster is it that answers there? Asked once, before anything of it is recorded."""

from dataclasses import dataclass
from typing import Any

from connectors.cluster_connection import Cluster
from connectors.errors import UnseenError
from connectors.kafka.client import Address, Client
from connectors.kafka.concurrent_query import Sweep
from connectors.kafka.error_classification import of_code
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import DescribeClusterRequest
from connectors.kafka.messages import fetched, knock
from connectors.kafka.rate_limiter import Budget
from connectors.kafka.resolver import Resolver
from rules.model.monitoring import ObservationSource, Reason

_AGAIN_S = 0.5
_BROKERS, _CONTROLLERS = 1, 2
"""Whom DescribeCluster is asked for (KIP-919)."""
_TELLING = (
    Reason.WRONG_CLUSTER,
    Reason.DENIED,
    Reason.NOT_AUTHENTICATED,
    Reason.TLS_FAILED,
    Reason.NOT_READY,
    Reason.UNDECODABLE,
    Reason.UNSUPPORTED,
    Reason.NO_LEADER,
    Reason.UNRESOLVABLE,
    Reason.RESOLVER_FAILED,
    Reason.REFUSED,
    Reason.CLOSED,
    Reason.TIMED_OUT,
    Reason.UNREACHABLE,
)
"""The most telling first."""
_FINAL = frozenset(
    {Reason.WRONG_CLUSTER, Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.UNSUPPORTED}
)


def describe_cluster(*, controllers: bool) -> Any:
    """A DescribeCluster: of the controllers (KIP-919), or of the brokers."""
    return DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=_CONTROLLERS if controllers else _BROKERS,
        include_fenced_brokers=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescribed:
    """Which cluster a node belongs to, and whom else it knows."""

    cluster_id: str
    controllers: tuple[Address, ...]
    """Every registered controller, voter or not, at the listener that was asked; empty where brokers were asked for."""


def cluster_described(answer: Any) -> ClusterDescribed:
    """What a node says of its cluster (KIP-919).

    Raises:
        UnseenError: it does not want to tell.
    """
    if answer.error_code:
        raise of_code(answer.error_code, "DescribeCluster")
    nodes = answer.brokers if getattr(answer, "endpoint_type", _BROKERS) == _CONTROLLERS else ()
    return ClusterDescribed(
        cluster_id=str(answer.cluster_id), controllers=tuple(Address(node.host, node.port) for node in nodes)
    )


def identify(cluster: Cluster, timeout_s: float) -> str:
    """Ask for a cluster's id, blocking: the look before a job starts.

    Returns:
        The id that the first node to answer tells; where none may tell, `cluster.cluster_id`, once a node has
        taken it for its own or has answered at all.

    Raises:
        UnseenError: WRONG_CLUSTER when the id is not `cluster.cluster_id`; else the most telling reason why
            nobody answered within `timeout_s`.
        UsageError: an option that we do not know.
    """
    loop = Loop()
    try:
        resolver = Resolver(loop, resolve=cluster.resolve, hosts_file=cluster.hosts_file)
        client = Client(loop, cluster, resolver=resolver, budget=Budget())
        try:
            return loop.run(lambda: _identify(loop, client, cluster, timeout_s))
        finally:
            client.close()
    finally:
        loop.close()


async def ask_cluster(client: Client, address: Address) -> ClusterDescribed:
    """Which cluster a node belongs to, be it a controller or a broker; a controller names all others.

    Raises:
        UnseenError: it does not answer or may not tell; a controller tells only with ALTER on CLUSTER, and before
            Kafka 3.7 (KIP-919) not at all: UNSUPPORTED.
    """
    try:
        return cluster_described(
            await client.ask(address, describe_cluster(controllers=True), lane=ObservationSource.QUORUM)
        )
    except UnseenError as problem:
        if problem.reason is not Reason.UNSUPPORTED:
            raise
    return cluster_described(
        await client.ask(address, describe_cluster(controllers=False), lane=ObservationSource.QUORUM)
    )


async def _identify(loop: Loop, client: Client, cluster: Cluster, timeout_s: float) -> str:
    async def ask(address: Address) -> str:
        try:
            return (await ask_cluster(client, address)).cluster_id
        except UnseenError as problem:
            if cluster.cluster_id is None or problem.reason not in (Reason.DENIED, Reason.UNSUPPORTED):
                raise
        return await _accepted(client, address, cluster.cluster_id)

    sweep = Sweep(loop, ask)
    addresses = [Address(host, port) for host, port in cluster.bootstrap]
    deadline = loop.now() + timeout_s
    while True:
        found = await sweep.round(addresses, seconds=max(0.0, deadline - loop.now()), good=lambda _: True)
        for address, verdict in found.items():
            if isinstance(verdict, str):
                return _expected(cluster, address, verdict)
        failures = {address: verdict for address, verdict in found.items() if isinstance(verdict, UnseenError)}
        address, worst = min(failures.items(), key=lambda one: _TELLING.index(one[1].reason))
        final = all(problem.reason in _FINAL for problem in failures.values())
        if final or loop.now() + _AGAIN_S >= deadline:
            raise UnseenError(worst.reason, f"{address}: {worst.detail}")
        await loop.sleep(_AGAIN_S)


async def _accepted(client: Client, address: Address, cluster_id: str) -> str:
    """The configured id, unless a controller says that it is not its own."""
    request = knock(cluster_id)
    try:
        fetched(await client.ask(address, request, lane=ObservationSource.LOG))
    except UnseenError as problem:
        if problem.reason not in (Reason.DENIED, Reason.UNSUPPORTED):
            raise
    return cluster_id


def _expected(cluster: Cluster, address: Address, found: str) -> str:
    if cluster.cluster_id not in (None, found):
        detail = f"{address} belongs to cluster {found}, not to {cluster.cluster_id}"
        raise UnseenError(Reason.WRONG_CLUSTER, detail)
    return found
