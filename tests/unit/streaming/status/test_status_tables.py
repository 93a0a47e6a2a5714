"""The tables that `status`, `replication` and `partitions` print."""

from pathlib import Path

import pytest

from streaming.status.check_output import check_text
from tests.golden_file import assert_golden
from tests.situation.commands import situation
from tests.unit.streaming.status.printed_status import printed, printed_state
from tests.unit.streaming.status.status_situations import SITUATIONS
from tests.unit.streaming.status.statuses import state_of

TABLES = Path(__file__).parent / "tables"
"""What is printed of each situation: `make goldens` rewrites them."""


@pytest.mark.parametrize("name", SITUATIONS)
def test_tables_of_status_and_replication_and_partitions(name: str) -> None:
    tables = (printed(SITUATIONS[name], what, width=160) for what in ("status", "replication", "partitions"))

    assert_golden(TABLES / f"{name}.txt", "".join(tables))


def test_status_table_of_a_recorded_state_shows_its_age() -> None:
    shown = printed(SITUATIONS["five-voters"], width=160, recorded_ago_ms=90_000, live=False)

    assert_golden(TABLES / "recorded.txt", shown)


def test_status_of_a_query_says_until_when_it_is_known_from_a_job() -> None:
    state = state_of(situation(), recorded_ago_ms=2_000)
    note = "  observed by the job until 2026-09-21 14:13:18 UTC, and by this command since"

    assert note in printed_state(state)
    assert note in check_text(state).plain
    assert "by the job" not in printed(situation())
    alone = printed(situation(), recorded_ago_ms=0)
    assert "  observed by the job until 2026-09-21 14:13:20 UTC\n" in "".join(
        f"{one.rstrip()}\n" for one in alone.split("\n")
    )


@pytest.mark.parametrize(
    ("refusing", "said"), [("1", " a leader could be elected"), ("1,3", "no leader could be elected")]
)
def test_voters_that_refuse_connections_and_fetch_cannot_be_followed(refusing: str, said: str) -> None:
    """Without a leader they count as down: the golden of the situation `leaderless`."""
    lines = [line.rstrip() for line in printed(situation(f"probe {refusing} refused")).splitlines()]

    assert any(line.endswith(said) for line in lines)


def test_status_table_names_a_command_that_takes_the_same_options() -> None:
    stale = situation("probe 2 name-not-found")
    assert "what to do: kraftwatch check, with the same options" in printed(stale)
    assert "what to do: kraftwatch explain stale-voter-endpoint" in printed(stale, recorded_ago_ms=0, live=False), (
        "check has no --journal"
    )


def test_names_from_outside_are_printed_without_control_codes_and_markup() -> None:
    evil = situation("unclean \x1b[2J[bold]orders 0")

    shown = printed(evil, "partitions")

    assert "\x1b" not in shown
    assert "[bold]orders" in shown


@pytest.mark.parametrize("what", ["status", "replication"])
def test_table_on_a_narrow_terminal_shows_every_endpoint(what: str) -> None:
    """A directory id has 22 characters."""
    listens = (f"listens {node} c{node}.test:9093" for node in (1, 2, 3))
    voters = (f"{node}-{f'dirOf{node}':A<22}@c{node}.test:9093" for node in (1, 2, 3))

    shown = printed(situation(*listens, f"voter-set 1h {' '.join(voters)}"), what, width=80)

    assert all(len(line) <= 80 for line in shown.splitlines())
    for node in (1, 2, 3):
        assert f"c{node}.test:9093" in shown
