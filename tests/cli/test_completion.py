"""Completion of verbs and rule ids in bash; typer does the same for zsh and fish."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def kraftwatch(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "streaming", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=180, env={**os.environ, **environment}
    )


def bash_completions(typed: str) -> list[str]:
    """Returns what bash offers for the last word."""
    words = typed.split(" ")
    ended = kraftwatch(_KRAFTWATCH_COMPLETE="complete_bash", COMP_WORDS=typed.rstrip(), COMP_CWORD=str(len(words) - 1))
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("kraftwatch st", ["status"]),
        ("kraftwatch explain no-", ["no-leader"]),
        ("kraftwatch explain glo", ["glossary"]),
        ("kraftwatch silence add --rule stale-", ["stale-voter-endpoint"]),
    ],
)
def test_bash_completes_verbs_and_rule_ids(typed: str, expected: list[str]) -> None:
    assert bash_completions(typed) == expected


def test_completion_is_installed_for_bash(tmp_path: Path) -> None:
    ended = kraftwatch(
        "--install-completion", "bash", HOME=str(tmp_path), _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1"
    )

    assert ended.returncode == 0, ended.stderr
    script = tmp_path / ".bash_completions" / "kraftwatch.sh"
    assert "_KRAFTWATCH_COMPLETE=complete_bash" in script.read_text()
    assert str(script) in (tmp_path / ".bashrc").read_text()


def test_completion_imports_no_heavy_library() -> None:
    heavy = ("kafka", "pandas", "pydantic", "pyspark", "requests", "yaml")
    script = f"import streaming.cli, sys; print([name for name in {heavy} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ended.stdout == "[]\n"
