"""A cluster to query, without what gathers, replays and evaluates its answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.kafka.cluster_connection import ClusterConnection

if TYPE_CHECKING:
    from streaming.replay.cluster_settings import ClusterSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTarget:
    """One cluster to query."""

    cluster: ClusterConnection
    settings: "Callable[[], ClusterSettings]"
