"""The house holds itself: sizes, names and pairings that a reader may rely on."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from rules.evaluate import RULES
from streaming import cli

ROOT = Path(__file__).parents[2]
PACKAGES = ("rules", "connectors", "streaming", "deploy")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LINES_MAX = 300
FUNCTION_LINES_MAX = 60
BANNED = {"utils", "helpers", "common", "manager", "base", "handler", "core", "misc"}
PURE = [
    path
    for folder in ("rules", "streaming/replay", "connectors/metadata")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
IMPURE_MODULES = {
    *("time", "datetime", "random", "secrets", "uuid", "os", "sys", "io", "pathlib", "tempfile", "socket", "ssl"),
    *("select", "selectors", "asyncio", "threading", "multiprocessing", "concurrent", "subprocess", "signal", "http"),
    *("urllib", "logging", "requests", "kafka", "confluent_kafka", "pyspark", "pandas", "pyarrow"),
}
"""What answers otherwise tomorrow, elsewhere or in another process."""
IMPURE_CALLS = {"open", "print", "input", "eval", "exec", "__import__", "hash", "id"}
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\S*/)?kraftwatch (?P<words>.*?)(?:\s{2,}.*|\s+# .*)?$")
"""A line of a fenced block that runs us: what stands two blanks behind it is its description."""


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

    assert {rule: float(hold) for rule, hold in rows} == holds, "each rule has a row in README's table, with its hold"


def commands(document: Path) -> Iterator[str]:
    """The arguments of each `kraftwatch ...` in a document's fenced blocks, continued lines joined."""
    for block in re.findall(r"^ *```[^\n]*\n(.*?)^ *```", document.read_text(), re.MULTILINE | re.DOTALL):
        for line in re.sub(r" *\\\n *", " ", block).splitlines():
            if found := COMMAND.match(line):
                yield found["words"]


def understood(words: list[str]) -> None:
    """Parsed as the command line parses it; nothing runs. Raises what click raises where it does not understand."""
    command = typer.main.get_command(cli.app)
    context = command.make_context("kraftwatch", list(words))
    while hasattr(command, "resolve_command"):
        name, command, words = command.resolve_command(context, words)
        context = command.make_context(name, list(words), parent=context)


@pytest.mark.parametrize(
    ("document", "words"), [(relative(document), words) for document in DOCUMENTS for words in commands(document)]
)
def test_every_command_of_the_documents_is_understood(document: str, words: str) -> None:
    understood(shlex.split(words))


def test_a_command_that_is_not_understood_is_found(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("```\n$ .venv/bin/kraftwatch run \\\n  --cluster a=b:1  watches it\nkraftwatch expalin\n```\n")

    assert list(commands(document)) == ["run --cluster a=b:1", "expalin"]
    understood(["run", "--cluster", "a=b:1"])
    for wrong in (["expalin"], ["run", "--clutser", "a=b:1"], ["decode"]):
        with pytest.raises(Exception, match=r"(?i)no such|missing"):
            understood(wrong)


def test_the_readme_names_the_verbs() -> None:
    assert len({words.split()[0] for words in commands(ROOT / "README.md")}) > 5


def test_ci_runs_what_people_run() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_its_case_its_golden_its_page_and_its_line_of_the_changelog(rule: str) -> None:
    tests = ROOT / "tests" / "unit" / "rules"
    of_all = {"test_evaluate.py", "test_goldens.py"}

    assert (ROOT / "rules" / "checks" / f"{rule.replace('-', '_')}.py").exists()
    cases = [path for path in tests.glob("test_*.py") if path.name not in of_all and f'"{rule}"' in path.read_text()]
    assert cases, (
        f'no case in tests/unit/rules/test_*.py names "{rule}": what fires it, what nearly does, what must not'
    )
    assert list((tests / "goldens").glob(f"{rule}.*.txt")), (
        "give CASES in test_goldens.py a situation, and `make goldens`"
    )
    assert (ROOT / "docs" / "rules" / f"{rule}.md").exists(), "`make goldens` writes its page"
    assert f"- [rule {rule}] " in (ROOT / "CHANGELOG.md").read_text(), f"CHANGELOG.md lacks `- [rule {rule}] new`"


def test_what_is_kept_for_a_rule_is_kept_for_one_that_there_is() -> None:
    goldens = (ROOT / "tests" / "unit" / "rules" / "goldens").iterdir()

    assert {path.name.split(".")[0] for path in goldens} <= set(RULES)
    assert set(re.findall(r"\[rule ([a-z-]+)\]", (ROOT / "CHANGELOG.md").read_text())) <= set(RULES)


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, wherever in it, by its full name; and what it takes from one."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def reached(paths: list[Path]) -> dict[Path, Path]:
    """These files and all of ours that they import, by way of others too: each with the file that asked for it."""
    found = {path: path for path in paths}
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        for module in imported(path):
            place = ROOT.joinpath(*module.split("."))
            for file in (place.with_suffix(".py"), place / "__init__.py"):
                if file.exists() and file not in found:
                    found[file] = path
                    waiting.append(file)
    return found


def impurities(path: Path) -> list[str]:
    """What in this file answers otherwise at another time or place."""
    calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    named = (call.id for call in calls if isinstance(call, ast.Name))
    return [module for module in imported(path) if module.split(".")[0] in IMPURE_MODULES] + [
        name for name in named if name in IMPURE_CALLS
    ]


def test_the_core_asks_nobody_what_time_it_is_and_neither_does_what_it_imports() -> None:
    assert {relative(path): impurities(path) for path in reached(PURE) if impurities(path)} == {}


@pytest.mark.parametrize(
    "source", ["import os.path", "def f():\n    from datetime import datetime", "seed = hash('a')", "text = open('f')"]
)
def test_an_impurity_is_found(source: str, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)

    assert impurities(path)
