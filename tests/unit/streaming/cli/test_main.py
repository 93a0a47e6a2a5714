"""The command itself: errors of the machine, the version, help texts, and shell completion."""

import errno
import os
from collections.abc import Iterator
from importlib import metadata

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup, TyperOption

from connectors.errors import UsageError
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


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/checkpoint/cluster.tmp")
FULL_TEXT = "/data/checkpoint/cluster.tmp: no space left on device"


@pytest.mark.parametrize(
    ("verb", "problem", "code", "sentence"),
    [
        ("run", FULL, 1, FULL_TEXT),
        # 1 is a result of these verbs.
        ("check", FULL, 3, FULL_TEXT),
        ("data audit", FULL, 3, FULL_TEXT),
        # What a node says in an error cannot control the terminal.
        ("check", UsageError("c1:9093 answers as cluster \x1b[2J"), 2, r"c1:9093 answers as cluster \x1b[2J"),
    ],
)
def test_error_is_one_sentence_and_an_exit_code(
    verb: str,
    problem: Exception,
    code: int,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise problem

    monkeypatch.setattr(cli, "app", fail)
    monkeypatch.setattr("sys.argv", ["kraftwatch", *verb.split()])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == code
    assert capsys.readouterr().err == f"kraftwatch: {sentence}\n"


def test_version_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["kraftwatch", "--version"])

    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"kraftwatch {metadata.version('kraftwatch')}\n"


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
