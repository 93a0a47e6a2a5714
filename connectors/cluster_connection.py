"""A Cluster: where one quorum can be asked, how to log in, and how its names resolve. Plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster to watch, as the gatherer gets it. `options` may hold secrets: never log a Cluster."""

    name: str
    bootstrap: tuple[tuple[str, int], ...]
    """(host, port) of controllers; brokers serve polls only."""
    cluster_id: str | None = None
    """Expected cluster id, where DescribeCluster is not allowed to us."""
    options: Mapping[str, str | int | bool | None] = field(default_factory=dict, repr=False)
    """kafka-python's names: security_protocol, ssl_cafile, sasl_mechanism, sasl_plain_password, ..."""
    resolve: Mapping[str, str] = field(default_factory=dict)
    """HOST -> address, as curl's --resolve: wins over everything else."""
    hosts_file: str | None = None
    """A file in /etc/hosts format, read again at each look; wins over DNS; a name missing from it goes to DNS."""
    log: bool = True
    """False: polls alone. Then DESCRIBE on CLUSTER does, and no controller need be reachable."""
    poll_interval_ms: int = 1_000
    probe_interval_ms: int = 5_000
    view_interval_ms: int = 10_000
    request_timeout_ms: int = 3_000
