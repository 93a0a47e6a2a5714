"""Completion of verbs and rule ids in bash; typer does the same for zsh and fish."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from connectors.process import extras
from streaming.cli import app


def bash_completions(typed: str) -> list[str]:
    """Returns what bash offers for the last word."""
    at = {"COMP_WORDS": typed.rstrip(), "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "streaming"],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={**os.environ, "_KRAFTWATCH_COMPLETE": "complete_bash", **at},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("kraftwatch st", ["status"]),
        ("kraftwatch data de", ["decode"]),
        ("kraftwatch explain no-l", ["no-leader"]),
        ("kraftwatch explain glo", ["glossary"]),
        ("kraftwatch silence add --rule stale-", ["stale-voter-endpoint"]),
    ],
)
def test_bash_completes_verbs_and_rule_ids(typed: str, expected: list[str]) -> None:
    assert bash_completions(typed) == expected


def test_completion_imports_no_heavy_library() -> None:
    """With rich and the dataclasses of the rules, TAB would take half as long again: 0.3 s of CPU time."""
    heavy = ("kafka", "pandas", "pyspark", "requests", "rich.console", "rules.finding", "yaml")
    imports = "import streaming.cli, streaming.cli.acknowledge, sys"
    script = f"{imports}; print([name for name in {(*heavy, 'pydantic')} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"


def test_completion_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    verb = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
    assert verb.make_context("run", ["--config", "x"], resilient_parsing=True).params["config"] == Path("x")
