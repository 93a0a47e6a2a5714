"""`kraftwatch config`: checks a configuration file and helps to write one."""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rules.finding import Severity
from streaming.cli.output import print_json, print_message, stdout_console

if TYPE_CHECKING:
    from streaming.config import Config

EXAMPLE = "example.yaml"

app = typer.Typer(
    no_args_is_help=True,
    help="""Check a configuration file, or print an example or the schema.

  kraftwatch config example > kraftwatch.yaml    every key, explained

  kraftwatch config check kraftwatch.yaml        before the job uses it

  kraftwatch config schema                       for editors
""",
)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.", metavar="FILE", show_default=False)],
    *,
    send_test: Annotated[
        bool,
        typer.Option(
            "--send-test",
            help="Send a test notification, marked as a test, to each sink, resolve it, and print what must arrive "
            "where. In PagerDuty it stays open for 30 s. One heartbeat is sent to heartbeat.url, and one message "
            "without metrics to otlp.url.",
        ),
    ] = False,
    severity: Annotated[
        Severity | None,
        typer.Option(
            help="The severity of the test, which decides its route; default: for each sink the lowest that it takes.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object to stdout.")] = False,
) -> None:
    """Validate a configuration; print the monitored clusters and the sinks.

    It warns about files with secrets that other users can read, and about a
    page that other machines can read without TLS and a token.

    No cluster is queried (`kraftwatch doctor` does that), and nothing is sent
    without --send-test.

    Exit codes: 0 valid, 2 invalid, 1 a sink did not accept the test
    notification, the heartbeat's service not the heartbeat, or the receiver of
    OTLP not the message.

      kraftwatch config check kraftwatch.yaml --send-test
    """
    from connectors.process.wall_clock import wall_ms
    from streaming.config import load, mistakes
    from streaming.config.exposure import exposures, unreadable
    from streaming.doctor.config_summary import config_summary, summary_text
    from streaming.doctor.sink_check import check_sink

    errors = list(mistakes(file))
    if errors:
        _exit_invalid(file, errors, as_json=as_json)
    config = load(file)
    errors = [*unreadable(config)]
    send_test = send_test and not errors
    checks = [check_sink(sink.section, config.links, send_test=send_test, severity=severity) for sink in config.sinks]
    errors += [f"sinks.{at}: {one.problem}" for at, one in enumerate(checks) if one.problem is not None]
    if errors:
        _exit_invalid(file, [f"{file}: {sentence}" for sentence in errors], as_json=as_json)
    summary = config_summary(file, config, checks, warnings=exposures(config, file), tested=send_test, now_ms=wall_ms())
    services = _services(config)
    failed = {name: error for name, (_, send) in services.items() if send_test and (error := send()) is not None}
    for name in ("heartbeat", "otlp"):
        tested = failed.get(name, "delivered") if send_test else None
        summary[name] = {"every_s": services[name][0], "test": tested} if name in services else None
    if as_json:
        print_json(summary)
    else:
        stdout_console().print(summary_text(summary))
    raise typer.Exit(1 if failed or any(one.test_error is not None for one in checks) else 0)


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of the configuration, for editors.

    In VS Code with the YAML extension, the first line of the file can name it:

      # yaml-language-server: $schema=config.schema.json

      kraftwatch config schema > config.schema.json
    """
    from streaming.config import config_json_schema

    typer.echo(json.dumps(config_json_schema(), indent=2))


@app.command("example")
def example() -> None:
    """Print an example configuration that explains every key.

    kraftwatch config example > kraftwatch.yaml
    """
    typer.echo(files("streaming.config").joinpath(EXAMPLE).read_text(encoding="utf-8"), nl=False)


def _exit_invalid(file: Path, errors: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"file": str(file), "ok": False, "mistakes": list(errors)})
    for sentence in errors:
        print_message(sentence)
    raise typer.Exit(2)


def _services(config: "Config") -> "Mapping[str, tuple[float, Callable[[], str | None]]]":
    """Returns what the job sends again and again: the seconds between, and what sends it once and returns an error."""
    from streaming.metrics.heartbeat import request_url
    from streaming.metrics.otlp import send_message

    found: dict[str, tuple[float, Callable[[], str | None]]] = {}
    if config.heartbeat is not None:
        beat = config.heartbeat.schedule()
        found["heartbeat"] = (beat.every_s, lambda: request_url(beat.url))
    if (target := config.otlp_target()) is not None:
        # A message without metrics is a valid one.
        found["otlp"] = (target.every_s, lambda: send_message(target, b""))
    return found
