"""The terminal: what verbs say to the person at it, on stderr, and how wide what they print is where there is none."""

from rich.console import Console

PLAIN_WIDTH = 1_000
"""Nothing is folded for a file or a pipe: no sentence is longer."""


def say(text: object) -> None:
    """One line on stderr, as it is."""
    _stderr(text, "")


def note(text: object) -> None:
    """The same in the background: what goes on."""
    _stderr(text, "dim")


def printed(width: int = PLAIN_WIDTH) -> Console:
    """Stdout: as wide as the terminal, or `width` where there is none."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=width)


def _stderr(text: object, style: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"kraftwatch: {text}", markup=False, style=style)
