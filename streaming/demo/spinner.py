"""What takes longer than a moment is said: a spinner on a terminal, a line in a file or a pipe."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text


@contextmanager
def waiting(console: Console, text: str) -> Iterator[None]:
    """Say what is waited for while it is."""
    if console.is_terminal and not console.is_dumb_terminal:
        with console.status(Text(text)):
            yield
        return
    # A picture shows what came, not what was waited for.
    if not console.record:
        console.print(Text(f"  {text} ...", style="dim"))
    yield
