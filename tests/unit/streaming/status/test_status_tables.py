"""The tables of `status`, `replication` and `partitions` on a narrow terminal, and with names from outside."""

import pytest

from tests.situation.commands import situation
from tests.unit.streaming.status.printed_status import printed

"""What is printed of each situation: `make goldens` rewrites them."""


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
