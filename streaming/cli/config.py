"""`kraftwatch config`: a configuration file looked at before the job is."""

import json
import tempfile
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from rules.model.identifiers import Millis
from streaming.cli import options
from streaming.cli.output import printed, say
from streaming.config import Config, config_json_schema, load, mistakes
from streaming.config.file_checks import unreadable
from streaming.doctor.config_summary import outlook, text_of
from streaming.doctor.sink_check import Tried, tried

EXAMPLE = "example.yaml"

app = typer.Typer(
    no_args_is_help=True,
    help="""Check a configuration file, and help to write one.

  kraftwatch config example > kraftwatch.yaml    every key, explained

  kraftwatch config check kraftwatch.yaml        before the job takes it

  kraftwatch config schema                       for editors
""",
)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.", metavar="FILE", show_default=False)],
    *,
    send_test: Annotated[
        bool, typer.Option("--send-test", help="Send each sink a message that says that it is a test, and its end.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, to stdout.")] = False,
) -> None:
    """Check a configuration wholly; say what is watched and who is told.

    No cluster is asked (`kraftwatch doctor` does that), and nothing is sent
    without --send-test.

    Exit codes: 0 good, 2 something in it cannot be, 1 a sink did not take the
    test message.

      kraftwatch config check kraftwatch.yaml --send-test
    """
    wrong = list(mistakes(file))
    if wrong:
        _refuse(file, wrong, as_json=as_json)
    config = load(file)
    wrong = [f"{file}: {sentence}" for sentence in unreadable(config)]
    tries = _tries(config, send_test=send_test and not wrong)
    wrong += [f"{file}: sinks.{at}: {one.problem}" for at, one in enumerate(tries) if one.problem is not None]
    if wrong:
        _refuse(file, wrong, as_json=as_json)
    shown = outlook(file, config, tries, tested=send_test, now_ms=Millis(round(time.time() * 1000)))
    if as_json:
        options.print_json(shown)
    else:
        printed().print(text_of(shown))
    raise typer.Exit(1 if any(one.refused is not None for one in tries) else 0)


@app.command("schema")
def schema_() -> None:
    """Print the JSON schema of the configuration, for editors.

    In VS Code with the YAML extension, the file's first line may name it:

      # yaml-language-server: $schema=config.schema.json

      kraftwatch config schema > config.schema.json
    """
    typer.echo(json.dumps(config_json_schema(), indent=2))


@app.command("example")
def example() -> None:
    """Print a configuration in which every key is explained.

    kraftwatch config example > kraftwatch.yaml
    """
    typer.echo(files("streaming.config").joinpath(EXAMPLE).read_text(encoding="utf-8"), nl=False)


def _refuse(file: Path, wrong: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        options.print_json({"file": str(file), "ok": False, "mistakes": list(wrong)})
    for sentence in wrong:
        say(sentence)
    raise typer.Exit(2)


def _tries(config: Config, *, send_test: bool) -> Sequence[Tried]:
    with tempfile.TemporaryDirectory(prefix="kraftwatch-config-") as folder:
        return [tried(wanted, memory=Path(folder), send_test=send_test) for wanted in config.wanted()]
