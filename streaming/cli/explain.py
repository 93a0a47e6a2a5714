"""`kraftwatch explain [RULE]`: a rule's page for the operator, and the numbers that can be changed."""

import difflib
import textwrap
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from connectors.errors import UsageError
from rules.evaluate import RULES
from rules.finding import Rule
from rules.rule_page import default_of, page_of, silence_of, times_of
from streaming.cli.output import printed


def explain(
    rule: Annotated[str | None, typer.Argument(help="A rule's id, as alerts name it.", metavar="RULE")] = None,
) -> None:
    """What a rule means, what to do and what not, and its thresholds; without RULE, all rules.

    Exit codes: 0, or 2 for a rule that there is not.

      kraftwatch explain no-leader
    """
    console = printed(120)
    if rule is None:
        console.print(_list())
        return
    found = RULES.get(rule.strip().lower().replace("_", "-"))
    if found is None:
        near = difflib.get_close_matches(rule, RULES, n=1, cutoff=0.4)
        hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(RULES)}"
        raise UsageError(f"unknown rule '{rule}': {hint}")
    console.print(_page(found))


def _list() -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan")
    grid.add_column()
    for one in RULES.values():
        grid.add_row(one.id, one.title)
    return Group(grid, Text("\nkraftwatch explain RULE tells what it means and what to do.", "dim"))


def _page(rule: Rule) -> RenderableType:
    page = page_of(rule)
    body = Text(f"{page.lead}\n{times_of(rule)}\n")
    for section in page.sections:
        body.append(f"\n{section.heading}\n", "bold cyan")
        body.append(textwrap.indent(f"{section.text}\n", "    "))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column()
    for threshold in rule.thresholds:
        grid.add_row(f"{rule.id}.{threshold.name}", default_of(threshold), threshold.meaning)
    parts: list[RenderableType] = [Text(rule.id, "bold"), Text(), body, grid]
    if silence := silence_of(rule):
        parts.append(Text(f"\n{silence}", "dim"))
    parts.append(Text(f"\nChange a threshold with --set {rule.id}.{rule.thresholds[0].name}=VALUE.", "dim"))
    return Group(*parts)
