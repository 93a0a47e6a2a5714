"""`make mutate`: change the code of the core in small steps, and list the changes that no test notices.

The changes are those of mutmut. The tests run in a copy of the working tree below TMPDIR, so that neither the checkout
nor a test that runs in it is disturbed. For each module, the tests of its area run: those that start neither Kafka nor
Spark. A survivor is a missing test, or a change of which docs/reliability.md says why it is accepted.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from rich.console import Console

ROOT = Path(__file__).parents[2]
AREAS = {
    "rules": ("tests/unit/rules", "tests/kips"),
    "streaming/replay": (
        "tests/unit/streaming/replay",
        "tests/unit/streaming/pipeline/test_step_containment.py",
        "tests/unit/streaming/pipeline/test_step_pages.py",
        "tests/simulation/test_held_rows.py",
        "tests/kips",
    ),
    "connectors/metadata": ("tests/unit/connectors/metadata", "tests/kips"),
}
"""The folders with code that may be mutated, and the tests that run for each by default."""
FAST = "not lab and not spark and not long and not debian"


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


def modules_of(names: Iterable[str]) -> list[str]:
    """Returns the modules that have these names or are in these folders."""
    paths = (ROOT / name for name in names)
    found = (each for path in paths for each in ([path] if path.is_file() else sorted(path.rglob("*.py"))))
    return [str(path.relative_to(ROOT)) for path in found]


def results(modules: list[str], tests: Iterable[str], *, tenths: int, children: int) -> Iterator[dict[str, str]]:
    """Yields the module, the result and the text of each change.

    Raises:
        SystemExit: the tests cannot run or fail without a change.
    """
    with tempfile.TemporaryDirectory(prefix="kraftwatch-mutants-") as name:
        folder = Path(name)
        copied(folder)
        with (folder / "pyproject.toml").open("a") as project:
            project.write('\n[tool.mutmut]\nsource_paths = ["rules", "connectors", "streaming"]\n')
        read, write = os.pipe()
        runner = [sys.executable, "-m", "tests.mutation.forked_tests", f"--results={write}", f"--marks={FAST}"]
        sizes = [f"--tenths={tenths}", f"--children={children}"]
        command = [*runner, *sizes, "--modules", *modules, "--tests", *tests]
        with (folder / "mutation.log").open("w+") as log:
            running = subprocess.Popen(command, cwd=folder, pass_fds=[write], stdout=log, stderr=log)
            os.close(write)
            with os.fdopen(read) as lines:
                yield from map(json.loads, lines)
            if running.wait() not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
                sys.exit(f"{' '.join(modules)}: {(folder / 'mutation.log').read_text()[-4_000:]}")


def score(name: str, counts: Counter[str]) -> str:
    results = "".join(f", {count} {result}" for result, count in counts.most_common())
    return f"{name}: {counts.total()} changes{results}\n"


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
        help="test so many tenths of the changes; 10: all",
    )
    parser.add_argument("--children", type=int, default=2, help="how many changes are tested at once")
    parser.add_argument("--names", action="store_true", help="print the names of the survivors without the changes")
    options = parser.parse_args()
    everything = Counter[str]()
    with Console(stderr=True).status("copying the working tree") as status:
        for area in sorted({area_of(module) for module in options.modules}):
            modules = modules_of(module for module in options.modules if area_of(module) == area)
            counts = {module: Counter[str]() for module in modules}
            status.update(f"{area}: running its tests once without a change")
            chosen = results(modules, options.tests or AREAS[area], tenths=options.tenths, children=options.children)
            for number, one in enumerate(chosen, 1):
                counts[one["module"]][one["result"]] += 1
                status.update(f"{area}: {number} changes tested, now {one['module']}")
                if one["result"] != "killed":
                    name, _, change = one["change"].partition("\n")
                    sys.stdout.write(f"{one['result']}: {name}\n" + ("" if options.names else f"{change}\n\n"))
                    sys.stdout.flush()
            sys.stdout.writelines(score(module, count) for module, count in counts.items() if count)
            sys.stdout.flush()
            everything += sum(counts.values(), Counter[str]())
    if len(options.modules) > 1 or not options.modules[0].endswith(".py"):
        sys.stdout.write(score(" ".join(options.modules), everything))
    return 0 if everything["killed"] else 1


if __name__ == "__main__":
    sys.exit(main())
