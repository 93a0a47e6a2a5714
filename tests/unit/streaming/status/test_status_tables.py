"""The tables that `status`, `replication` and `partitions` print."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from rules.model.quorum import Quorum
from streaming.status import status_tables
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState
from tests.golden_file import assert_golden
from tests.unit.rules.situation import (
    healthy,
    name_not_found,
    recovering,
    refuses,
)
from tests.unit.streaming.status.status_situations import SITUATIONS, five_voters
from tests.unit.streaming.status.statuses import state_of

TABLES = Path(__file__).parent / "tables"
"""What is printed of each situation: `make goldens` rewrites them."""


def printed(quorum: Quorum, what: str = "status", *, width: int = 220, **more: Any) -> str:
    """What the CLI prints on a terminal of this width."""
    return printed_state(state_of(quorum, **more), what, width=width)


def printed_state(state: ClusterState, what: str = "status", *, width: int = 220) -> str:
    """What the CLI prints of this state."""
    console = Console(width=width)
    with console.capture() as capture:
        console.print(getattr(status_tables, f"{what}_table")(cluster_status(state)))
    return capture.get()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_tables_of_status_and_replication_and_partitions(situation: str) -> None:
    tables = (printed(SITUATIONS[situation], what, width=160) for what in ("status", "replication", "partitions"))

    assert_golden(TABLES / f"{situation}.txt", "".join(tables))


def test_status_table_of_a_recorded_state_shows_its_age() -> None:
    assert_golden(TABLES / "recorded.txt", printed(five_voters(), width=160, recorded_ago_ms=90_000, live=False))


@pytest.mark.parametrize("refusing", [(1,), (1, 3)])
def test_voters_that_refuse_connections_and_fetch_have_only_moved(refusing: tuple[int, ...]) -> None:
    """Without a leader they count as down: the golden of the situation `leaderless`."""
    lines = [line.rstrip() for line in printed(refuses(healthy(3), *refusing)).splitlines()]

    assert any(line.endswith("a leader could be elected") for line in lines)


def test_status_table_names_a_command_that_takes_the_same_options() -> None:
    stale = name_not_found(healthy(3), 2)
    assert "what to do: kraftwatch check, with the same options" in printed(stale)
    assert "what to do: kraftwatch explain stale-voter-endpoint" in printed(stale, recorded_ago_ms=0, live=False), (
        "check has no --journal"
    )


def test_names_from_outside_are_printed_without_control_codes_and_markup() -> None:
    evil = recovering(healthy(3), 0, topic="\x1b[2J[bold]orders")

    shown = printed(evil, "partitions")

    assert "\x1b" not in shown
    assert "[bold]orders" in shown


@pytest.mark.parametrize("what", ["status", "replication"])
def test_table_on_a_narrow_terminal_shows_every_endpoint(what: str) -> None:
    shown = printed(healthy(3), what, width=80)

    assert all(len(line) <= 80 for line in shown.splitlines())
    for node in (1, 2, 3):
        assert f"c{node}.test:9093" in shown
