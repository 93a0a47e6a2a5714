"""The figures of a section as the table that `make bench` writes into docs/performance.md."""

from typing import Any

import pytest

from tests.bench.__main__ import PAGE, SECTIONS, figures_table
from tests.page_tables import tables_of

FLAT = {"cpu_percent": 14.6, "rows": 12000, "age_ms": {"p50": 1.5, "max": 2}}
LONG = {"small": {"rows": 1, "cpu_s": 2, "MB": 3}, "large": {"rows": 1000, "MB": 5}}
MANY = {"status": {"cpu_s": 1}, "check": {"cpu_s": 2.5}}


@pytest.mark.parametrize(
    ("figures", "lines"),
    [
        (
            FLAT,
            ["| run |  |", "|---|---|", "| cpu percent | 14.6 |", "| rows | 12,000 |", "| age ms | p50 1.5, max 2 |"],
        ),
        (
            LONG,
            ["| run | small | large |", "|---|---|---|", "| rows | 1 | 1,000 |", "| cpu s | 2 |  |", "| MB | 3 | 5 |"],
        ),
        (MANY, ["| run | cpu s |", "|---|---|", "| status | 1 |", "| check | 2.5 |"]),
    ],
    ids=["values", "few columns", "many columns"],
)
def test_the_longer_side_of_a_table_goes_down(figures: dict[str, Any], lines: list[str]) -> None:
    assert figures_table("run", figures).splitlines() == lines


def test_every_table_of_the_page_is_that_of_a_section() -> None:
    assert tables_of(PAGE).keys() <= SECTIONS.keys()
