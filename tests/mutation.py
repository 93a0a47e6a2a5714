"""`make mutate`: change the code of the core in small steps, and list the changes that no test notices.

mutmut makes the mutants in a copy of the working tree below TMPDIR, so that neither the checkout nor a test that runs
in it is disturbed. For each module, the tests of its area run: those that start neither Kafka nor Spark. A survivor is
a missing test, or a change of which docs/reliability.md says why it is accepted.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
AREAS = {
    "rules": ("tests/unit/rules", "tests/kips"),
    "streaming/replay": ("tests/unit/streaming/replay", "tests/kips"),
    "connectors/metadata": ("tests/unit/connectors/metadata", "tests/kips"),
}
"""The folders with code that may be mutated, and the tests that run for each by default."""
SLOW = "not lab and not spark and not long and not debian"
SAMPLED = (4, 7, 1, 9, 2, 5, 8, 3, 6, 0)
"""Last digits of the numbers of the mutants in a sample of one tenth, two tenths, and so on."""
_UNTESTED = "not checked"
_RESULT = re.compile(r" +(?P<mutant>\S+): (?P<status>.+)")


def copied(into: Path) -> None:
    """Copies every file that git knows or would add, as it is in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in {*listed.stdout.split("\0")} - {""}:
        if (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, into / name)


def settings(modules: Iterable[str], tests: Iterable[str], names: Iterable[str]) -> str:
    """Returns the section of pyproject.toml for mutmut.

    Args:
        modules: the modules to mutate, as patterns of paths.
        tests: the test files or folders to run.
        names: the files and folders at the top of the repository, which tests read.
    """

    def array(values: Iterable[str]) -> str:
        return "[" + ", ".join(f'"{value}"' for value in values) + "]"

    return f"""

[tool.mutmut]
source_paths = ["rules", "connectors", "streaming"]
also_copy = {array(sorted(names))}
only_mutate = {array(modules)}
pytest_add_cli_args_test_selection = {array(tests)}
pytest_add_cli_args = ["-m", "{SLOW}", "-p", "no:cacheprovider", "-p", "no:xdist"]
"""


def area_of(module: str) -> str:
    """Returns the folder of AREAS that holds the module.

    Raises:
        SystemExit: there is no such module, or it is not in one of these folders.
    """
    area = next((folder for folder in AREAS if Path(module).is_relative_to(folder)), None)
    if area is None or not (ROOT / module).exists():
        sys.stderr.write(
            f"{module}: expected a module or folder below {', '.join(AREAS)}, such as rules/lifecycle.py\n"
        )
        sys.exit(2)
    return area


def mutmut(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"mutmut {arguments[0]} failed:\n{ended.stdout[-4_000:]}{ended.stderr[-4_000:]}")
    return ended.stdout


def sample(tenths: int) -> list[str]:
    """Returns patterns of the names of so many tenths of the mutants; none for all."""
    return [f"*__mutmut_*{digit}" for digit in SAMPLED[:tenths]] if tenths < len(SAMPLED) else []


def mutate(
    modules: Iterable[str], tests: Iterable[str], *, tenths: int, children: int, show: bool
) -> tuple[Counter[str], list[str]]:
    """Returns how many mutants have each result, and a description of each one that was not killed."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-mutants-") as name:
        folder = Path(name)
        copied(folder)
        names = {path.name for path in folder.iterdir()} - {"rules", "connectors", "streaming"}
        with (folder / "pyproject.toml").open("a") as project:
            project.write(settings(modules, tests, names))
        mutmut(folder, "run", "--max-children", str(children), *sample(tenths))
        results = map(_RESULT.fullmatch, mutmut(folder, "results", "--all", "true").splitlines())
        found = [match for match in results if match and match["status"] != _UNTESTED]
        left = [one["mutant"] for one in found if one["status"] != "killed"]
        changes = [mutmut(folder, "show", mutant).strip() if show else mutant for mutant in sorted(left)]
        return Counter(one["status"] for one in found), changes


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", default=[*AREAS], help="modules or folders; all of the core by default")
    parser.add_argument("--tests", nargs="+", help="the test files or folders to run instead of those of the area")
    parser.add_argument(
        "--tenths",
        type=int,
        default=10,
        choices=range(1, 11),
        metavar="N",
        help="test so many tenths of the mutants; 10: all",
    )
    parser.add_argument("--children", type=int, default=2, help="how many mutants are tested at once")
    parser.add_argument("--names", action="store_true", help="print the names of the survivors without the changes")
    options = parser.parse_args()
    everything = Counter[str]()
    for area in sorted({area_of(module) for module in options.modules}):
        chosen = [module for module in options.modules if area_of(module) == area]
        patterns = [module if module.endswith(".py") else f"{module.rstrip('/')}/*" for module in chosen]
        counts, changes = mutate(
            patterns,
            options.tests or AREAS[area],
            tenths=options.tenths,
            children=options.children,
            show=not options.names,
        )
        everything += counts
        sys.stdout.write("\n\n".join([*changes, ""]))
        score = ", ".join(f"{count} {status}" for status, count in counts.most_common())
        sys.stdout.write(f"{' '.join(chosen)}: {counts.total()} mutants, {score}\n")
        sys.stdout.flush()
    return 0 if everything["killed"] else 1


if __name__ == "__main__":
    sys.exit(main())
