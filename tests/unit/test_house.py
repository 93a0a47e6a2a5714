"""The house holds itself: sizes, names and pairings that a reader may rely on."""

import ast
import re
from pathlib import Path

import pytest

from rules.evaluate import RULES
from streaming import cli

ROOT = Path(__file__).parents[2]
PACKAGES = ("rules", "connectors", "streaming", "deploy")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LINES_MAX = 300
FUNCTION_LINES_MAX = 60
BANNED = {"utils", "helpers", "common", "manager", "base", "handler", "core", "misc"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_can_be_held_in_the_head(path: Path) -> None:
    source = path.read_text()
    lines = source.count("\n")
    functions = [
        f"{node.name} has {(node.end_lineno or 0) - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > FUNCTION_LINES_MAX
    ]

    # The vocabulary and the union of events are lists: a list may be as long as what it lists.
    if relative(path) not in {"rules/quorum.py", "connectors/event.py"}:
        assert lines <= LINES_MAX, f"{lines} lines: split it by its nouns"
    assert not functions
    assert path.stem not in BANNED


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_no_two_test_files_have_one_name() -> None:
    """pytest would collect only the first of them, and stop at the second: `make test` would run nothing at all."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py")]
    assert [name for name in names if name.startswith("test_") and names.count(name) > 1] == []


def test_no_file_names_a_registry_or_a_path_of_a_machine() -> None:
    lock = (ROOT / "requirements.lock").read_text()

    assert "://" not in lock
    assert lock.count("--hash=sha256:") > 100


def test_every_command_of_the_readme_exists() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for target in re.findall(r"^\s*make ([a-z-]+)", readme, re.MULTILINE):
        assert target in targets


def test_the_readme_lists_every_rule_with_its_hold() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| ([0-9]+) s \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    holds = {rule.id: next(each.default for each in rule.thresholds if each.name == "hold") for rule in RULES.values()}

    assert {rule: float(hold) for rule, hold in rows} == holds


def test_every_verb_of_the_readme_exists() -> None:
    verbs = {command.name for command in cli.app.registered_commands} | {"lab"}

    named = re.findall(r"^(?:\.venv/bin/)?kraftwatch ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert set(named) <= verbs
    assert len(set(named)) > 5


def test_ci_runs_what_people_run() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
