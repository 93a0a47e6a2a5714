"""The table of docs/reliability.md that `make whole` writes."""

from collections.abc import Sequence

import pytest

from tests.page_tables import tables_of
from tests.whole import COMMANDS, HEAD, PAGE, TABLE, result, shown, with_line

EMPTY = f"{HEAD}\n|---|---|---|---|---|\n"


@pytest.mark.parametrize(
    ("status", "output", "said"),
    [
        (0, ["=== 6768 passed, 86 skipped in 812.40s (0:13:32) ===\n"], "6768 passed, 86 skipped"),
        (2, ["== 1 failed, 11 passed, 1 error in 5.10s ==\n"], "1 failed, 11 passed, 1 error, exit code 2"),
        (0, ["==== 20 passed in 1.2s ====\n", "==== 3 passed, 40 deselected in 9.9s ====\n"], "3 passed"),
        (0, ["all alerts were sent\n"], "exit code 0"),
        (1, [], "exit code 1"),
    ],
    ids=["tests", "failed tests", "the last of two runs", "no tests", "no output"],
)
def test_a_result_is_the_numbers_of_tests_or_the_exit_code(status: int, output: Sequence[str], said: str) -> None:
    assert result(status, output) == said


def test_a_line_replaces_that_of_its_command_in_the_order_of_the_commands() -> None:
    lines = [f"| `{shown(name)}` | of {name} |" for name in ("demo", "test", "demo")]
    found = EMPTY
    for name, line in zip(("demo", "test", "demo"), (lines[0], lines[1], f"{lines[2]} again |"), strict=True):
        found = with_line(found, name, line)

    assert found == f"{EMPTY}{lines[1]}\n{lines[2]} again |\n"


def test_the_table_of_the_page_has_lines_of_these_commands() -> None:
    found = tables_of(PAGE)[TABLE]

    assert found.startswith(EMPTY)
    assert {line.split("`")[1] for line in found.splitlines()[2:]} <= {*map(shown, COMMANDS)}
