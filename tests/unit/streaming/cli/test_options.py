"""Options as a declaration: what a verb takes."""

from typing import Any

import typer
from typer.testing import CliRunner

from connectors.point_in_time import AtOffset
from rules.model.identifiers import Offset
from streaming.cli import options


def test_a_verb_takes_the_options_that_are_declared_and_its_own() -> None:
    app, taken = typer.Typer(), []

    @options.options(options.Shown)
    def verb(wanted: options.Shown, node: int, *, force: bool = False) -> None:
        """Does it."""
        taken.append((wanted, node, force))

    app.command("verb")(verb)
    ended = CliRunner().invoke(app, ["--cluster", "a=x:1", "--at", "5", "--watch", "7", "--force"])

    assert ended.exit_code == 0, ended.output
    wanted: Any = options.Shown(cluster=["a=x:1"], at="5", watch=True)
    assert taken == [(wanted, 7, True)]
    assert wanted.moment == AtOffset(offset=Offset(5))
