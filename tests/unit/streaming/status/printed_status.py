"""A status as it is printed."""

from typing import Any

from rich.console import Console

from rules.model.quorum import Quorum
from streaming.status import status_tables
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState, ClusterStatus
from tests.unit.streaming.status.statuses import state_of


def printed(quorum: Quorum, what: str = "status", *, width: int = 220, **more: Any) -> str:
    """What the CLI prints on a terminal of this width."""
    return printed_state(state_of(quorum, **more), what, width=width)


def printed_state(state: ClusterState, what: str = "status", *, width: int = 220) -> str:
    """What the CLI prints of this state."""
    return printed_status(cluster_status(state), what, width=width)


def printed_status(status: ClusterStatus, what: str = "status", *, width: int = 220) -> str:
    """What the CLI prints of this status."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(getattr(status_tables, f"{what}_table")(status))
    return capture.get()
