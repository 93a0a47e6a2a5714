"""How to connect to one cluster: addresses, login and name resolution. Plain data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rules.model.identifiers import host_and_port
from rules.model.monitoring import VIEW_EVERY_MS


class Address(NamedTuple):
    """Host and port of a node's listener."""

    host: str
    port: int

    def __str__(self) -> str:
        """HOST:PORT."""
        return host_and_port(self.host, self.port)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConnection:
    """One monitored cluster, as the gatherer receives it. `options` may hold secrets: never log this object."""

    name: str
    bootstrap: tuple[tuple[str, int], ...]
    """(host, port) of controllers; brokers answer DescribeQuorum only."""
    cluster_id: str | None = None
    """Expected cluster id; required where the principal may not send DescribeCluster."""
    options: Mapping[str, str | int | bool | None] = field(default_factory=dict, repr=False)
    """kafka-python's option names: security_protocol, ssl_cafile, sasl_mechanism, sasl_plain_password, ..."""
    resolve: Mapping[str, str] = field(default_factory=dict)
    """HOST -> address, as curl's --resolve; takes precedence over the hosts file and DNS."""
    hosts_file: str | None = None
    """A file in /etc/hosts format, re-read at each lookup; takes precedence over DNS."""
    log: bool = True
    """False: only DescribeQuorum is polled. That needs only DESCRIBE on CLUSTER and no reachable controller."""
    view_interval_ms: int = VIEW_EVERY_MS
    request_timeout_ms: int = 3_000
