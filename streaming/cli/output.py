"""Output of the verbs: messages on stderr; tables and JSON on stdout.

rich is imported when something is printed: it would delay the completion of each verb.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import typer

from connectors.process.json_log import json_event, uses_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

FILE_WIDTH = 1_000
"""The width of tables in a file or a pipe, where lines are not wrapped."""


_ERROR, _PROGRESS = "", "dim"


def print_message(text: object) -> None:
    """Prints one line on stderr."""
    _stderr(text, _ERROR)


def print_progress(text: object) -> None:
    """Prints one line on stderr in a dim style: what the verb is doing."""
    _stderr(text, _PROGRESS)


def print_json(value: Mapping[str, object]) -> None:
    """Prints one line of JSON on stdout and flushes it."""
    from connectors.store.stored_json import json_line

    typer.echo(json_line({**value}))


def stdout_console(width: int = FILE_WIDTH) -> "Console":
    """Returns a console on stdout: as wide as the terminal, or `width` if stdout is not a terminal."""
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)


def print_text(text: "RenderableType") -> None:
    """Prints a text on stdout; the terminal wraps it, so that commands can be copied."""
    from rich.console import Console

    Console(highlight=False).print(text, soft_wrap=True)


def print_table(fixed: Iterable[str], wrapped: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    """Prints a table on stdout: columns that are not wrapped, then others."""
    from rich.table import Column, Table
    from rich.text import Text

    from rules.formatting import visible

    table = Table(*(Column(name, no_wrap=True) for name in fixed), *wrapped, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    stdout_console().print(table)


def _stderr(text: object, style: str) -> None:
    from rules.formatting import visible

    if uses_json():
        sys.stderr.write(json_event(str(text), level="INFO" if style == _PROGRESS else "ERROR"))
        sys.stderr.flush()
        return
    from rich.console import Console

    # Errors quote what nodes have sent: it must not control the terminal.
    shown = visible(f"kraftwatch: {text}")
    Console(stderr=True, highlight=False, soft_wrap=True).print(shown, markup=False, style=style)
