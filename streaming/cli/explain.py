"""`kraftwatch explain [RULE]`: a rule's page for the operator with its thresholds; or the glossary."""

import difflib
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from connectors.errors import UsageError
from streaming.cli.output import stdout_console

if TYPE_CHECKING:
    from rules.rule import DeclaredRule

GLOSSARY = "glossary"
_GLOSSARY_HINT = "\nkraftwatch explain glossary explains the terms (docs/glossary.md)."


def rule_ids() -> list[str]:
    """Returns the id of every rule; the shell completes them."""
    from rules.evaluate import ALL_RULES

    return list(ALL_RULES)


def explain(
    rule: Annotated[
        str | None,
        typer.Argument(
            help="A rule's id, as alerts name it, a term, or `glossary`.",
            metavar="RULE",
            autocompletion=lambda: [*rule_ids(), GLOSSARY],
        ),
    ] = None,
) -> None:
    """Explain a rule: its meaning, what to do, what not to do, its thresholds.

    Without RULE, lists all rules. `kraftwatch explain glossary` prints the
    meaning of each term in alerts, metrics and on the page; RULE may also be
    one of these terms.

    Exit codes: 0, or 2 for an unknown rule.

      kraftwatch explain no-leader
    """
    from rules.evaluate import ALL_RULES

    console = stdout_console(120)
    if rule is None:
        hint = "\nkraftwatch explain RULE explains one rule and what to do." + _GLOSSARY_HINT
        console.print(_grid([(one.id, one.title) for one in ALL_RULES.values()]), Text(hint, "dim"))
        return
    name = rule.strip().lower().replace("_", "-")
    if name == GLOSSARY:
        console.print(_glossary())
        return
    if name in ALL_RULES:
        console.print(_page(ALL_RULES[name]))
    elif (meaning := _meaning(rule.strip().lower())) is not None:
        console.print(meaning)
    else:
        near = difflib.get_close_matches(rule, ALL_RULES, n=1, cutoff=0.4)
        hint = f"did you mean '{near[0]}'?" if near else f"known rules: {', '.join(ALL_RULES)}"
        raise UsageError(f"unknown rule '{rule}': {hint}")


def _grid(rows: Iterable[Sequence[str]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    for number, row in enumerate(rows):
        if not number:
            grid.add_column(style="cyan", no_wrap=len(row) > 2)
        grid.add_row(*map(Text, row))
    return grid


def _page(rule: "DeclaredRule") -> RenderableType:
    from rules.rule_page import default_of, inhibition_of, page_of, times_of

    page = page_of(rule)
    body = Text(f"{page.lead}\n{times_of(rule)}\n")
    for heading, text in page.sections.items():
        body.append(f"\n{heading}\n", "bold cyan")
        body.append(textwrap.indent(f"{text}\n", "    "))
    grid = _grid(
        [(f"{rule.id}.{threshold.name}", default_of(threshold), threshold.meaning) for threshold in rule.thresholds]
    )
    parts: list[RenderableType] = [Text(rule.id, "bold"), Text(), body, grid]
    if inhibition := inhibition_of(rule):
        parts.append(Text(f"\n{inhibition}", "dim"))
    change = f"\nChange a threshold with --set {rule.id}.{rule.thresholds[0].name}=VALUE."
    parts.append(Text(change + _GLOSSARY_HINT, "dim"))
    return Group(*parts)


def _glossary() -> RenderableType:
    """Returns the tables of docs/glossary.md."""
    parts: list[RenderableType] = []
    for heading, terms in _glossary_sections():
        parts += [Text(heading, "bold"), _grid(terms), Text()]
    return Group(*parts[:-1])


def _meaning(name: str) -> Text | None:
    """Returns the glossary's meaning of a term, or None if it has no such term."""
    for _, terms in _glossary_sections():
        for term, meaning in terms:
            if name in term.lower().split(", "):
                return Text.assemble((term, "cyan"), f": {meaning}", (_GLOSSARY_HINT, "dim"))
    return None


def _glossary_sections() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Returns each heading of docs/glossary.md with its terms and their meanings."""
    packaged = files("streaming.cli").joinpath("glossary.md")
    # The wheel has a copy; in a checkout the page itself is read.
    file = packaged if packaged.is_file() else Path(__file__).parents[2] / "docs" / "glossary.md"
    for section in file.read_text(encoding="utf-8").split("\n## ")[1:]:
        heading, *lines = section.splitlines()
        rows = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
        yield heading, [(term.strip(), meaning.strip().replace("`", "")) for term, meaning in rows[1:]]
