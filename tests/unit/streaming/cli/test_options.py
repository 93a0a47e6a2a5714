"""The options that `with_options` adds to a verb."""

from typing import Any

import typer
from typer.testing import CliRunner

from connectors.observations.point_in_time import AtOffset
from rules.model.identifiers import Offset
from streaming.cli.options import StatusOptions, with_options


def test_verb_has_the_declared_options_and_its_own() -> None:
    app, calls = typer.Typer(), []

    @with_options(StatusOptions)
    def verb(opts: StatusOptions, node: int, *, force: bool = False) -> None:
        """Records its arguments."""
        calls.append((opts, node, force))

    app.command("verb")(verb)
    ended = CliRunner().invoke(app, ["--cluster", "a=x:1", "--at", "5", "--watch", "7", "--force"])

    assert ended.exit_code == 0, ended.output
    expected: Any = StatusOptions(cluster=["a=x:1"], at="5", watch=True)
    assert calls == [(expected, 7, True)]
    assert expected.point_in_time == AtOffset(offset=Offset(5))
