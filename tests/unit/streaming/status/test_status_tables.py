"""The tables that `status`, `replication` and `partitions` print."""

import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.status import status_tables
from streaming.status.build_status import cluster_status
from tests.unit.rules.situation import (
    healthy,
    key,
    leaderless,
    name_not_found,
    not_observed_for,
    observer,
    recovering,
    refuses,
    registered_elsewhere,
    static,
    voter_not_fetching,
)
from tests.unit.streaming.status import statuses
from tests.unit.streaming.status.statuses import state_of
from tests.unit.streaming.status.test_status_fields import in_the_kips_sample

pytestmark = pytest.mark.kip(
    "A098", "A106", "A108", "D097", "D098", "D099", "D100", "E071", "E076", "K014", "K018", "K037"
)

SITUATIONS = {
    "healthy": healthy(3),
    "stale": name_not_found(healthy(3), 1, 2),
    "leaderless": leaderless(healthy(3), 1),
    "static": static(healthy(3)),
    "recovering": recovering(healthy(3), 0, 1),
    "observer": observer(healthy(3), 4),
    "nothing seen": Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0)),
}


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("what", ["status", "replication", "partitions"])
def test_every_situation_has_json_and_a_table(name: str, what: str) -> None:
    fields = getattr(statuses, what)(SITUATIONS[name])

    assert json.loads(json.dumps(fields, allow_nan=False)) == fields
    assert "prod" in printed(SITUATIONS[name], what)


def printed(quorum: Quorum, what: str = "status", *, width: int = 220, **more: Any) -> str:
    """What the CLI prints on a terminal of this width."""
    state = state_of(quorum, **more)
    console = Console(width=width)
    with console.capture() as capture:
        console.print(getattr(status_tables, f"{what}_table")(cluster_status(state)))
    return capture.get()


def test_status_table_begins_with_health_and_finding() -> None:
    shown = printed(name_not_found(healthy(3), 2))

    assert shown.splitlines()[0].startswith(" WARNING  prod")
    assert shown.splitlines()[1] == "  warning stale-voter-endpoint · voter 2 · fires once it has lasted 30 s"
    (of_2,) = (line for line in shown.splitlines() if "c2.test:9093" in line and " stale " in line)
    assert "the name does not resolve (NXDOMAIN)" in of_2
    assert "3 of 3 voters are active, 2 votes needed: 1 more may fail" in shown


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


def test_status_table_shows_the_age_of_a_recorded_state() -> None:
    old = not_observed_for(healthy(3), log_ms=90_000, poll_ms=90_000)

    assert "recorded state, 1 min 30 s old" in printed(old, recorded_ago_ms=90_000)


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


def test_registered_endpoint_is_shown_only_where_it_differs() -> None:
    assert "Registered at" not in printed(healthy(3))
    assert "c2.test:19093" in printed(registered_elsewhere(healthy(3), 2))


def test_unknown_rules_with_one_reason_are_one_line() -> None:
    shown = " ".join(printed(replace(healthy(3), last_offset=None)).split())

    (before, _) = shown.split("nothing of the metadata log has been read yet")
    _, _, rules = before.rpartition(" unknown ")
    assert rules.startswith("broker-fenced, ")
    assert rules.endswith(" more: ")


def trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
