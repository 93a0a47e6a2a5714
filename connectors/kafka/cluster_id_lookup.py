"""Looks up the id of the cluster that answers at an address, once, before anything is recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest

from connectors.errors import ObservationError
from connectors.kafka.client import Client, short_client
from connectors.kafka.cluster_connection import Address, ClusterConnection
from connectors.kafka.concurrent_query import ConcurrentQuery
from connectors.kafka.error_classification import MOST_SPECIFIC_FIRST, error_from_code
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.messages import fetch_request, parse_fetch
from connectors.kafka.response_limits import Port, invalid, known, known_host
from rules.model.monitoring import ObservationSource, Reason

_RETRY_S = 0.5
_BROKERS, _CONTROLLERS = 1, 2
"""EndpointType of DescribeCluster (KIP-919)."""
_CLUSTER_ID = 255
"""Kafka writes 22 characters; an administrator may choose others."""
_REFUSED = (Reason.DENIED, Reason.UNSUPPORTED)
"""The node does not say to which cluster it belongs."""
_FINAL = (Reason.WRONG_CLUSTER, Reason.WRONG_PROTOCOL, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, *_REFUSED)


def describe_cluster_request(*, controllers: bool) -> Any:
    """A DescribeCluster request for the controllers (KIP-919) or for the brokers."""
    return DescribeClusterRequest(
        include_cluster_authorized_operations=False,
        endpoint_type=_CONTROLLERS if controllers else _BROKERS,
        include_fenced_brokers=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """A node's answer to DescribeCluster."""

    cluster_id: str
    controllers: tuple[Address, ...]
    """Every registered controller, voter or not, at the queried listener; empty if brokers were requested."""


def parse_describe_cluster(response: Any) -> ClusterDescription:
    """Parses a DescribeCluster response (KIP-919).

    Raises:
        ObservationError: the response holds an error code, no cluster id, or a port that Kafka cannot write.
    """
    if response.error_code:
        raise error_from_code(response.error_code, "DescribeCluster")
    if not response.cluster_id:
        raise invalid("DescribeCluster: cluster_id is missing")
    if len(response.cluster_id) > _CLUSTER_ID:
        raise invalid(f"DescribeCluster: cluster_id has {len(response.cluster_id)} characters")
    nodes = (response.brokers or ()) if getattr(response, "endpoint_type", _BROKERS) == _CONTROLLERS else ()
    return ClusterDescription(
        cluster_id=str(response.cluster_id),
        controllers=tuple(
            Address(known_host(node.host, "DescribeCluster: host"), known(Port, node.port, "DescribeCluster: port"))
            for node in nodes
        ),
    )


def identify(cluster: ClusterConnection, timeout_s: float) -> str:
    """Returns the cluster id that the first node to answer reports. Blocks; called before the job starts.

    If no node may report it: `cluster.cluster_id`, once a node accepted it in a Fetch, or answered a Fetch with DENIED
    or UNSUPPORTED.

    Raises:
        ObservationError: WRONG_CLUSTER if the id is not `cluster.cluster_id`; otherwise the most specific reason why
            no node answered within `timeout_s`.
    """
    with short_client(cluster) as (loop, client):
        return loop.run(lambda: _identify(loop, client, cluster, timeout_s))


async def query_cluster(client: Client, address: Address) -> ClusterDescription:
    """Sends DescribeCluster to a controller or broker. A controller's answer lists all controllers.

    Raises:
        ObservationError: no answer, or the node refuses: a controller answers only with ALTER on CLUSTER (DENIED),
            and does not support the request before Kafka 3.7, KIP-919 (UNSUPPORTED).
    """
    try:
        return parse_describe_cluster(
            await client.send(address, describe_cluster_request(controllers=True), source=ObservationSource.QUORUM)
        )
    except ObservationError as problem:
        if problem.reason is not Reason.UNSUPPORTED:
            raise
    return parse_describe_cluster(
        await client.send(address, describe_cluster_request(controllers=False), source=ObservationSource.QUORUM)
    )


async def _identify(loop: EventLoop, client: Client, cluster: ClusterConnection, timeout_s: float) -> str:
    concurrent_query = ConcurrentQuery(loop, lambda address: _cluster_id(client, address, cluster.cluster_id))
    addresses = [Address(host, port) for host, port in cluster.bootstrap]
    deadline = loop.now() + timeout_s
    reasons = dict[Address, ObservationError]()
    while True:
        results = await concurrent_query.query(
            addresses, timeout_s=max(0.0, deadline - loop.now()), accept=lambda _: True
        )
        for address, result in results.items():
            if isinstance(result, str):
                if cluster.cluster_id in (None, result):
                    return result
                detail = f"{address} belongs to cluster {result}, not to {cluster.cluster_id}"
                raise ObservationError(Reason.WRONG_CLUSTER, detail)
        failures = {address: result for address, result in results.items() if isinstance(result, ObservationError)}
        # One that the end of the round left without an answer has failed with a reason before.
        reasons |= {
            at: error for at, error in failures.items() if error.reason is not Reason.TIMED_OUT or at not in reasons
        }
        address, worst = min(reasons.items(), key=lambda one: MOST_SPECIFIC_FIRST.index(one[1].reason))
        final = all(problem.reason in _FINAL for problem in failures.values())
        if final or loop.now() + _RETRY_S >= deadline:
            raise ObservationError(worst.reason, f"{address}: {worst.detail}")
        await loop.sleep(_RETRY_S)


async def _cluster_id(client: Client, address: Address, configured: str | None) -> str:
    try:
        return (await query_cluster(client, address)).cluster_id
    except ObservationError as problem:
        if configured is None or problem.reason not in _REFUSED:
            raise
    # The configured id, unless the node rejects it in a Fetch (WRONG_CLUSTER).
    request = fetch_request(cluster_id=configured)
    try:
        parse_fetch(await client.send(address, request, source=ObservationSource.LOG))
    except ObservationError as problem:
        if problem.reason not in _REFUSED:
            raise
    return configured


def repeated_ids(ids: Iterable[tuple[str, str]]) -> Mapping[str, tuple[str, ...]]:
    """Returns the cluster ids that several clusters have, with the names of these, of pairs of name and cluster id."""
    names: dict[str, dict[str, None]] = {}
    for name, cluster_id in ids:
        names.setdefault(cluster_id, {})[name] = None
    return {cluster_id: tuple(same) for cluster_id, same in names.items() if len(same) > 1}
