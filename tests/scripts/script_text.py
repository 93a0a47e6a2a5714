"""The text of a script: blocks of comments (`#`) and commands, a line `----`, the expected output, an empty line."""

from collections.abc import Callable, Iterator
from pathlib import Path

from tests.golden_file import assert_golden


def commands_of(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the lines above the `----` of each block: all of them, and those that are commands."""
    for block in text.strip("\n").split("\n\n"):
        above = block.partition("\n----")[0].split("\n")
        yield above, [line for line in above if line and not line.startswith("#")]


def with_output(text: str, run: Callable[[str], Iterator[str]], *, nothing: str) -> str:
    """Runs the commands of a script and returns it with their real output; with `nothing` where there is none."""
    written = []
    for above, commands in commands_of(text):
        output = [line for command in commands for line in run(command)]
        written.append("\n".join([*above, "----", *(output or [nothing])] if commands else above))
    return "\n\n".join(written) + "\n"


def assert_output(script: Path, run: Callable[[str], Iterator[str]], *, nothing: str) -> None:
    """Asserts that a script has the real output of its commands; writes it before if goldens are rewritten."""
    assert_golden(script, with_output(script.read_text(encoding="utf-8"), run, nothing=nothing))
