"""Probes endpoints once, all at the same time, and no longer than a given time."""

from collections.abc import Mapping, Sequence

from connectors.gather.endpoint_probe import EndpointProbe
from connectors.gather.node_directory import NodeDirectory, ProbeTarget
from connectors.kafka.client import Client
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.rate_limiter import RateLimiter
from connectors.kafka.resolver import Resolver
from connectors.observations.observation_event import EndpointProbed, ObservationFailed


class _Collected:
    """Keeps the results by target."""

    def __init__(self) -> None:
        self.probes: dict[ProbeTarget, EndpointProbed] = {}

    def write_probe(self, event: EndpointProbed) -> None:
        self.probes[ProbeTarget(node=event.node, endpoint=event.endpoint)] = event

    def write_failure(self, event: ObservationFailed) -> None:
        """Keeps nothing: the result of the probe says the same."""


def probe_once(
    cluster: ClusterConnection, targets: Sequence[ProbeTarget], *, within_s: float
) -> Mapping[ProbeTarget, EndpointProbed]:
    """Returns the result for each target; one that took longer is absent.

    Args:
        cluster: gives the cluster id, the login and the name resolution.
        targets: the endpoints, with the node that should answer at each.
        within_s: how long to wait for all of them.
    """
    loop, output = EventLoop(threads=max(1, len(targets))), _Collected()
    try:
        resolver = Resolver(loop, resolve=cluster.resolve, hosts_file=cluster.hosts_file)
        client = Client(loop, cluster, resolver=resolver, rate_limiter=RateLimiter())
        nodes = NodeDirectory(configured=(), cluster_id=cluster.cluster_id)
        timeout_ms = cluster.request_timeout_ms
        probe = EndpointProbe(
            loop, client, nodes, output, resolver=resolver, interval_ms=timeout_ms, timeout_ms=timeout_ms
        )

        async def probe_all() -> None:
            futures = [loop.spawn(probe.probe(target)) for target in targets]
            await loop.wait_until(lambda: all(one.done for one in futures), futures, within_s)

        try:
            loop.run(probe_all)
        finally:
            client.close()
        return output.probes
    finally:
        loop.close()
