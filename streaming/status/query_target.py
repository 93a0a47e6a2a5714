"""A cluster to query, without what gathers, replays and evaluates its answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connectors.kafka.cluster_connection import ClusterConnection

if TYPE_CHECKING:
    from connectors.gather.node_directory import KnownEndpoints
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.status.recording import ReplayedJournal


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTarget:
    """One cluster to query."""

    cluster: ClusterConnection
    settings: "Callable[[], ClusterSettings]"
    read_recorded: "Callable[[], ReplayedJournal | None]" = lambda: None
    """Reads its recorded state, which is shown while no node answers; None: there is none."""
    known_endpoints: "KnownEndpoints | None" = None
    """The endpoints that its nodes were last reported at."""
