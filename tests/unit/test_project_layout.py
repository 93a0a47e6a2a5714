"""What belongs together: documents and commands, each rule and its files, the core and its purity."""

import ast
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from rules.claims import words as claim_words
from rules.evaluate import RULES
from tests.long_parts import PARTS, has_long_tests
from tests.unit.command_line import parse_command

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


def test_every_make_target_has_what_it_needs() -> None:
    targets = re.findall(r"^([a-z-]+):.* ## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    # MAKEFLAGS: of the make that runs these tests.
    ended = subprocess.run(
        ["make", "--dry-run", *targets],
        cwd=ROOT,
        env={**os.environ, "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, len(targets) > 20) == (0, True), ended.stderr


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


@pytest.mark.parametrize(
    ("document", "words"), [(relative(document), words) for document in DOCUMENTS for words in commands(document)]
)
def test_kraftwatch_commands_in_documents_are_valid(document: str, words: str) -> None:
    parse_command(shlex.split(words))


TESTS = ROOT / "tests"
RUN_REAL_PROGRAMS = {"api_server", "bench", "browser", "chaos", "job", "kafka", "spark"}
"""The folders of tests that start Kafka, Spark, a browser or an API server."""
OF_THE_CORE = (
    *("agreement", "description", "kips", "scripts", "simulation", "situation"),
    *("unit/rules", "unit/streaming/replay", "unit/connectors/metadata"),
)
"""The folders of tests that need no process besides their own."""


def imported(path: Path) -> Iterator[str]:
    """Yields the modules of tests that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
            yield from (f"{node.module}.{each.name}" for each in node.names)
            yield node.module or ""


def test_no_test_module_is_imported_by_another() -> None:
    """What two of them need is in a module beside them whose name says what it is."""
    found = [
        f"{relative(path)} imports {module}"
        for path in sorted(TESTS.rglob("*.py"))
        for module in imported(path)
        if re.search(r"\.test_\w+$", module) and (ROOT / f"{module.replace('.', '/')}.py").exists()
    ]
    assert found == []


@pytest.mark.parametrize("folder", OF_THE_CORE)
def test_tests_of_the_core_import_nothing_that_starts_a_program(folder: str) -> None:
    found = [
        f"{relative(path)} imports {module}"
        for path in sorted((TESTS / folder).rglob("*.py"))
        for module in imported(path)
        if module.split(".")[1:2] and module.split(".")[1] in RUN_REAL_PROGRAMS
    ]
    assert found == []


def test_every_folder_of_tests_is_on_their_page() -> None:
    page = (TESTS / "README.md").read_text()
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders - set(re.findall(r"`(\w+)/`", page)) == set()


def test_every_long_test_is_in_one_part_of_make_test_long() -> None:
    listed = [file for part in PARTS for file in part.files()]
    assert sorted(listed) == [file for file in sorted(TESTS.rglob("test_*.py")) if has_long_tests(file)]


def test_every_place_of_a_part_has_long_tests_and_no_part_takes_an_hour() -> None:
    empty = [place for part in PARTS for place in part.places if not any(part.files_in(place))]
    assert empty == []
    assert max(part.minutes for part in PARTS) < 60


def test_the_words_of_claims_are_in_one_place() -> None:
    """A sentence with an answer of its own could contradict the claim that it carries."""
    kept = Path(claim_words.__file__)
    clauses = {each for each in written(kept) if each.count(" ") > 3}
    titles = {rule.title for rule in RULES.values()}
    found = {
        (relative(path), clause)
        for path in PURE
        if path != kept
        for text in written(path) - titles
        for clause in clauses
        if clause.lower() in text.lower()
    }

    assert len(clauses) > 8
    assert found == set()


CARRIES_CLAIMS = {"Statement": 1, "Step": 2}
"""What gives a text its claims, and how many arguments it has without one."""
GIVE_CLAIMS = {
    "rules/claims/statement.py": "puts texts together that have claims",
    "rules/claims/words.py": "makes the texts of the claims",
    "rules/remedies/step.py": "adds the value of a step to a text that has claims",
}


def test_a_text_gets_its_claims_where_it_is_made_of_them() -> None:
    """A sentence that is written beside its claim could be reworded, or answer otherwise, without it."""
    found = [
        f"{relative(path)}:{call.lineno}"
        for path in sorted({*PURE, *(ROOT / "streaming").rglob("*.py"), *(ROOT / "connectors").rglob("*.py")})
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CARRIES_CLAIMS
        if len(call.args) + len(call.keywords) > CARRIES_CLAIMS[call.func.id] and relative(path) not in GIVE_CLAIMS
    ]

    assert found == []


def written(path: Path) -> set[str]:
    """Returns the texts in the code of a module, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    }


def test_the_core_calls_nothing_that_depends_on_the_process() -> None:
    """import-linter checks what the core and its imports import."""
    calls = [
        f"{relative(path)}, line {node.lineno}: {node.func.id}"
        for path in PURE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
    ]
    assert calls == []
