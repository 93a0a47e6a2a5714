"""`make bugs`: puts each bug of the lists into a copy of the project, and checks that its test fails then.

A bug is a mistake that a developer could make. The lists (`*.diff`) name each module once (`@ PATH`), then its bugs:
the test that notices it with the rows of tests/kips/rows.txt that the product violates then (`! FILE::TEST ROW ...`),
and the lines as in a diff. WORDS= chooses the bugs of modules whose path contains one of these words.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Bug:
    """`right` occurs once in `module`; with `wrong` in its place, `noticed_by` (FILE::TEST) fails."""

    module: str
    noticed_by: str
    lines: list[str] = field(default_factory=list)

    @property
    def right(self) -> str:
        return "".join(line[1:] + "\n" for line in self.lines if line[:1] != "+")

    @property
    def wrong(self) -> str:
        return "".join(line[1:] + "\n" for line in self.lines if line[:1] != "-")


def main() -> int:
    """Returns the exit code: 1 if a bug is not noticed or cannot be put in, or a test fails without it."""
    console = Console(highlight=False, soft_wrap=True)
    words = (os.environ.get("WORDS") or "").split()
    listed = [bug for path in sorted(HERE.glob("*.diff")) for bug in bugs_of(path.read_text(encoding="utf-8"))]
    bugs = [bug for bug in listed if not words or any(word in bug.module for word in words)]
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bugs-") as folder:
        copy = Path(folder)
        _copy_project(copy)
        if _fails(copy, *sorted({bug.noticed_by for bug in bugs})):
            console.print("the tests fail without a bug")
            return 1
        unnoticed = 0
        for number, bug in enumerate(bugs, 1):
            problem = _problem(copy, bug)
            unnoticed += problem is not None
            outcome = "noticed" if problem is None else problem
            console.print(f"{number} of {len(bugs)}: {bug.module}: {bug.wrong.strip()}: {outcome}", markup=False)
    console.print(f"{len(bugs) - unnoticed} of {len(bugs)} bugs were noticed")
    return 1 if unnoticed else 0


def bugs_of(text: str) -> Iterator[Bug]:
    """Returns the bugs of a list."""
    for of_module in text.removeprefix("@ ").split("\n\n@ "):
        module, *bugs = of_module.rstrip("\n").split("\n! ")
        for bug in bugs:
            citation, *lines = bug.split("\n")
            yield Bug(module, citation.split()[0], lines)


def _copy_project(copy: Path) -> None:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)


def _problem(copy: Path, bug: Bug) -> str | None:
    """Returns why a bug is not noticed; None if its test fails."""
    path = copy / bug.module
    source = path.read_text(encoding="utf-8") if path.is_file() else ""
    if source.count(bug.right) != 1:
        return f"NOT PUT IN: {bug.right!r} occurs {source.count(bug.right)} times"
    path.write_text(source.replace(bug.right, bug.wrong), encoding="utf-8")
    try:
        return None if _fails(copy, bug.noticed_by) else f"NOT NOTICED by {bug.noticed_by}"
    finally:
        path.write_text(source, encoding="utf-8")


def _fails(copy: Path, *tests: str) -> bool:
    # Without stored byte code: the age of a source file is compared in whole seconds.
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-n0", "--tb=short", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=copy, capture_output=True, check=False).returncode == 1


if __name__ == "__main__":
    sys.exit(main())
