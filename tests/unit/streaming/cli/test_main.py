"""The help texts."""

from collections.abc import Iterator

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from streaming import cli
from streaming.cli.verbs import Verb

AnyCommand = TyperCommand | TyperGroup


def verbs(command: AnyCommand, path: str = "kraftwatch") -> Iterator[tuple[str, AnyCommand]]:
    yield path, command
    if isinstance(command, TyperGroup):
        for name, inside in command.commands.items():
            found = inside.load() if isinstance(inside, Verb) else inside
            assert isinstance(found, AnyCommand)
            yield from verbs(found, f"{path} {name}")


VERBS = dict(verbs(typer.main.get_group(cli.app)))


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_80_columns_and_every_option_has_a_help_text(verb: str) -> None:
    command = VERBS[verb]
    assert command.help
    # The terminal would wrap a longer line a second time, in the middle of a paragraph.
    assert [line for line in command.help.splitlines()[1:] if len(line) > 78] == []
    assert [each.name for each in command.params if isinstance(each, TyperOption) and not each.help] == []


@pytest.mark.parametrize("verb", [name for name, verb in VERBS.items() if isinstance(verb, TyperCommand)])
def test_help_has_an_example_of_the_verb(verb: str) -> None:
    lines = [line.strip() for line in (VERBS[verb].help or "").splitlines()]

    assert any(line.startswith(verb) for line in lines)
