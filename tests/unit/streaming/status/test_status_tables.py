"""The tables that `status`, `replication` and `partitions` print."""

from typing import Any

import pytest
from rich.console import Console

from rules.model.quorum import Quorum
from streaming.status import status_tables
from streaming.status.build_status import cluster_status
from tests.unit.rules.situation import (
    healthy,
    key,
    leaderless,
    name_not_found,
    observer,
    recovering,
    refuses,
    voter_not_fetching,
)
from tests.unit.streaming.status.statuses import state_of
from tests.unit.streaming.status.test_status_fields import in_the_kips_sample

pytestmark = pytest.mark.kip(
    "A098", "A106", "A108", "D097", "D098", "D099", "D100", "E071", "E076", "K014", "K018", "K037"
)


def printed(quorum: Quorum, what: str = "status", *, width: int = 220, **more: Any) -> str:
    """What the CLI prints on a terminal of this width."""
    state = state_of(quorum, **more)
    console = Console(width=width)
    with console.capture() as capture:
        console.print(getattr(status_tables, f"{what}_table")(cluster_status(state)))
    return capture.get()


@pytest.mark.kip("E007")
def test_election_without_leader_counts_voters_that_refuse_connections_as_down() -> None:
    down = leaderless(refuses(healthy(3), 1, 3), 2)
    shown = printed(down)

    assert "connections are refused by 1,3" in shown
    assert "Last activity" in shown
    assert "no controller leads now" in printed(down, "replication")
    assert "a leader could be elected\n" in trimmed(printed(refuses(healthy(3), 1)))
    assert "a leader could be elected\n" in trimmed(printed(refuses(healthy(3), 1, 3))), (
        "the leader reports that they fetch: they have only moved"
    )


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


@pytest.mark.kip("A098", "A106", "A108", "D099")
def test_every_replica_is_shown_with_its_directory_id() -> None:
    """Two of them have the same node id."""
    quorum = observer(voter_not_fetching(healthy(3), 2), 2, directory="newDirOf2")
    rows = [line.split() for line in printed(quorum, "replication").splitlines()]

    shown = [(row[0], row[1], row[4]) for row in rows if len(row) > 4 and row[4] in ("Leader", "Follower", "Observer")]
    roles = {3: "Leader", 1: "Follower", 2: "Follower", 101: "Observer", 102: "Observer"}
    assert shown == [
        *((str(node), key(node).directory_id, role) for node, role in roles.items()),
        ("2", key(2, "newDirOf2").directory_id, "Observer"),
    ]
    voters = [line.split()[:2] for line in printed(quorum).splitlines() if ".test:9093" in line]
    assert [["2", key(2).directory_id]] == [voter for voter in voters if voter[0] == "2"]
    assert f"observers: {key(101)}, {key(102)}, {key(2, 'newDirOf2')}" in printed(quorum)
    assert f"could be voters: {key(2, 'newDirOf2')}" in printed(quorum)


@pytest.mark.kip("D098", "D099", "K037")
def test_the_sample_in_kip_595_is_printed_with_its_numbers() -> None:
    """Of `describe --status` and of `describe --replication`; kraftwatch prints lag times with their unit."""
    quorum = in_the_kips_sample()

    lines = {tuple(line.split()) for line in printed(quorum).splitlines()}
    assert lines >= {
        ("Leader", "0"),
        ("Leader", "epoch", "15"),
        ("High", "watermark", "234130"),
        ("Max", "follower", "lag", "34", "records,", "15", "ms"),
    }
    rows = [line.split() for line in printed(quorum, "replication").splitlines()]
    assert [[*row[:1], *row[2:7]] for row in rows if len(row) > 6 and row[0].isdecimal()] == [
        ["0", "234134", "0", "Leader", "0", "ms"],
        ["1", "234130", "4", "Follower", "10", "ms"],
        ["2", "234100", "34", "Follower", "15", "ms"],
        ["3", "234124", "10", "Observer", "12", "ms"],
        ["4", "234130", "4", "Observer", "15", "ms"],
    ]


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
