"""Progress of a long step: a spinner on a terminal, a line in a file or a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text


@contextmanager
def waiting(console: Console, text: str) -> Iterator[None]:
    """Shows what is waited for while entered."""
    if console.is_terminal and not console.is_dumb_terminal:
        with console.status(Text(text)):
            yield
        return
    # A recorded picture shows results, not waiting.
    if not console.record:
        console.print(Text(f"  {text} ...", style="dim"))
    yield
