"""Parses command lines as kraftwatch does, and runs nothing."""

import typer.main

from streaming import cli


def parse_command(words: list[str]) -> None:
    """Parses the arguments as the command line does and runs nothing. Raises click's error if they are invalid."""
    command = typer.main.get_command(cli.app)
    context = command.make_context("kraftwatch", list(words))
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(name, list(words), parent=context)
