"""What the machine refuses (a full disk, a folder of somebody else) is one sentence too."""

import errno
import os
from collections.abc import Iterator
from importlib import metadata

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from streaming import cli

Verb = TyperCommand | TyperGroup


def verbs(command: Verb, path: str = "kraftwatch") -> Iterator[tuple[str, Verb]]:
    yield path, command
    if isinstance(command, TyperGroup):
        for name, inside in command.commands.items():
            assert isinstance(inside, Verb)
            yield from verbs(inside, f"{path} {name}")


def test_a_full_disk_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/checkpoint/cluster.tmp")

    monkeypatch.setattr(cli, "app", full)

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 1
    assert capsys.readouterr().err == "kraftwatch: /data/checkpoint/cluster.tmp: no space left on device\n"


def test_it_says_which_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kraftwatch", "--version"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"kraftwatch {metadata.version('kraftwatch')}\n"


VERBS = dict(verbs(typer.main.get_group(cli.app)))


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_a_terminal_of_80_columns_and_every_option_says_what_it_is(verb: str) -> None:
    command = VERBS[verb]
    assert command.help
    # A line of a paragraph that is longer is broken once more by the terminal, in the middle of a sentence.
    assert [line for line in command.help.splitlines()[1:] if len(line) > 78] == []
    assert [each.name for each in command.params if isinstance(each, TyperOption) and not each.help] == []


@pytest.mark.parametrize("verb", [name for name, verb in VERBS.items() if isinstance(verb, TyperCommand)])
def test_help_shows_how_a_verb_is_typed(verb: str) -> None:
    shown = [line.strip() for line in (VERBS[verb].help or "").splitlines()]

    assert any(line.startswith(verb) for line in shown)


def test_an_option_without_a_value_shows_no_type(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kraftwatch", "config", "check", "--help"])

    with pytest.raises(SystemExit):
        cli.main()

    shown = capsys.readouterr().out
    assert "--send-test" in shown
    assert "bool" not in shown
