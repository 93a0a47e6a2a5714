"""What belongs together: documents and commands, each rule and its files, the core and its purity."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from rules.evaluate import ALL_RULES, RULES
from streaming import cli

ROOT = Path(__file__).parents[2]
PURE = [
    path
    for folder in ("rules", "streaming/replay", "connectors/metadata", "connectors/observations")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
IMPURE_CALLS = {"input", "__import__", "hash", "id"}
"""Ruff refuses open, print, eval and exec."""
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\S*/)?kraftwatch (?P<words>.*?)(?:\s{2,}.*|\s+# .*|\s+> \S+)?$")
"""A line of a fenced block that runs kraftwatch. Text after two spaces, or after ` # `, is a description."""


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_lock_file_has_hashes_and_names_no_registry() -> None:
    lock = (ROOT / "requirements.lock").read_text()

    assert "://" not in lock
    assert lock.count("--hash=sha256:") > 100


def test_make_targets_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for target in re.findall(r"^\s*make ([a-z-]+)", readme, re.MULTILINE):
        assert target in targets


def test_rules_in_the_readme_exist_and_have_their_default_hold() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| ([0-9]+) s \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    holds = {rule.id: next(each.default for each in rule.thresholds if each.name == "hold") for rule in RULES.values()}

    assert len(rows) > 5, "README.md has a table of the most important rules: | `ID` | condition | N s |"
    assert {rule: float(hold) for rule, hold in rows}.items() <= holds.items()


def commands(document: Path) -> Iterator[str]:
    """Yields the arguments of each `kraftwatch ...` in a document's fenced blocks; continued lines are joined."""
    for block in re.findall(r"^ *```[^\n]*\n(.*?)^ *```", document.read_text(), re.MULTILINE | re.DOTALL):
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            if found := COMMAND.match(line):
                yield found["words"]


def parse_command(words: list[str]) -> None:
    """Parses the arguments as the command line does and runs nothing. Raises click's error if they are invalid."""
    command = typer.main.get_command(cli.app)
    context = command.make_context("kraftwatch", list(words))
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(name, list(words), parent=context)


@pytest.mark.parametrize(
    ("document", "words"), [(relative(document), words) for document in DOCUMENTS for words in commands(document)]
)
def test_kraftwatch_commands_in_documents_are_valid(document: str, words: str) -> None:
    parse_command(shlex.split(words))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_cases_and_a_golden(rule: str) -> None:
    tests = ROOT / "tests" / "unit" / "rules"
    for_all_rules = {"test_evaluate.py", "test_goldens.py"}

    assert (ROOT / "rules" / "checks" / f"{rule.replace('-', '_')}.py").exists()
    cases = [
        path for path in tests.glob("test_*.py") if path.name not in for_all_rules and f'"{rule}"' in path.read_text()
    ]
    assert cases, f'no case in tests/unit/rules/test_*.py names "{rule}": test what fires it, and what must not'
    assert list((tests / "goldens").glob(f"{rule}.*.txt")), (
        "add a situation to CASES in test_goldens.py, then run `make goldens`"
    )


def test_goldens_are_of_existing_rules() -> None:
    goldens = (ROOT / "tests" / "unit" / "rules" / "goldens").iterdir()

    assert {path.name.split(".")[0] for path in goldens} <= set(ALL_RULES)


def test_the_core_calls_nothing_that_depends_on_the_process() -> None:
    """import-linter checks what the core and its imports import."""
    calls = [
        f"{relative(path)}, line {node.lineno}: {node.func.id}"
        for path in PURE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
    ]
    assert calls == []
