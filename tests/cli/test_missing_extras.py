"""Without an extra: one sentence with the command that installs it.

`tests/kafka/test_base_install.py` has a real environment without extras.
"""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
import yaml

from connectors.process import extras
from streaming.cli import app
from tests.cli.program import kraftwatch, usage_error


def install_command(extra: str) -> str:
    """No other pip would find this version, and one may find a package of this name that is not ours."""
    return f"{sys.executable} -m pip install 'kraftwatch[{extra}]=={version('kraftwatch')}'"


@pytest.fixture(autouse=True)
def _base_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)


@pytest.mark.parametrize(
    ("words", "library", "extra"),
    [
        ("run --cluster a=127.0.0.1:1", "Spark", "job"),
        ("demo", "Spark", "job"),
        ("lab up", "Spark", "job"),
        ("data export --output lake", "Spark", "job"),
        ("data audit", "Great Expectations", "audit"),
    ],
)
def test_a_command_names_the_extra_that_it_lacks(words: str, library: str, extra: str) -> None:
    assert usage_error(*words.split()) == (
        f"kraftwatch {words.partition(' --')[0]} needs {library}, which the base package does not install: "
        f"{install_command(extra)}"
    )


def test_help_usage_errors_and_completion_need_no_extra() -> None:
    assert kraftwatch("run", "--help").exit_code == 0
    assert "No such option: --sinks" in kraftwatch("run", "--sinks").output
    verb = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    assert verb.make_context("run", ["--config", "x"], resilient_parsing=True).params["config"] == Path("x")


def config(folder: Path, **keys: object) -> Path:
    file = folder / "kraftwatch.yaml"
    cluster = {"name": "a", "bootstrap": ["127.0.0.1:1"]}
    file.write_text(yaml.safe_dump({"clusters": [cluster], "checkpoint": str(folder / "job"), **keys}))
    return file


def test_a_store_on_a_server_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    file = config(tmp_path, store="postgresql://kraftwatch@db:5432/alerts")

    assert usage_error("silence", "list", "--config", file) == (
        "the store db:5432/alerts needs psycopg, which the base package does not install: "
        f"{install_command('postgres')}"
    )


def test_an_apprise_sink_names_the_extra_that_it_lacks(tmp_path: Path) -> None:
    file = config(tmp_path, sinks=["apprise:mailto://secret:word@example.com"])
    ended = kraftwatch("config", "check", file)

    assert ended.exit_code == 2
    assert ended.stderr == (
        f"kraftwatch: {file}: sinks.0: the sink apprise:mailto needs Apprise, which the base package does not install: "
        f"{install_command('apprise')}\n"
    )


def test_metrics_by_otlp_name_the_extra_that_they_lack(tmp_path: Path) -> None:
    relay = {"bootstrap": ["127.0.0.1:1"], "folder": str(tmp_path / "relay")}
    file = config(tmp_path, relay=relay, otlp={"url": "http://127.0.0.1:1/v1/metrics"})
    lacks = "otlp needs opentelemetry-proto, which the base package does not install"
    sentence = f"{lacks}: {install_command('otlp')}"

    assert usage_error("relay", "--config", file) == sentence
    ended = kraftwatch("config", "check", file)
    assert (ended.exit_code, ended.stderr) == (2, f"kraftwatch: {file}: {sentence}\n")
