"""The wheel by itself: everything that the program reads is in it, and what it needs is locked."""

import lzma
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.wheel import ROOT, installed

DATA = ROOT / "tests" / "data" / "metadata"


@pytest.fixture(scope="module")
def kraftwatch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a new environment that has the wheel."""
    return installed(tmp_path_factory.mktemp("wheel")) / "kraftwatch"


def said(kraftwatch: Path, *arguments: str | Path) -> str:
    ran = subprocess.run(
        [kraftwatch, *arguments], cwd=kraftwatch.parent, capture_output=True, text=True, check=False, timeout=180
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_program_runs_from_the_wheel_and_reads_what_is_in_it(kraftwatch: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "00000000000000000007-0000000001.checkpoint"
    checkpoint.write_bytes(lzma.decompress((DATA / "tiny.checkpoint.xz").read_bytes()))

    assert "kraftwatch" in said(kraftwatch, "--help")
    assert "What to do" in said(kraftwatch, "explain", "no-leader")
    assert "SnapshotFooter" in said(kraftwatch, "decode", checkpoint)


def test_our_packages_come_from_the_wheel_with_their_data_and_without_tests(kraftwatch: Path) -> None:
    look = (
        "import connectors, deploy, rules, streaming; from importlib.resources import files;"
        "print({str(files(each).parent) for each in (connectors, deploy, rules, streaming)});"
        "print(*sorted(str(path.relative_to(files('streaming').parent)) for each in (connectors, deploy, rules,"
        " streaming) for path in files(each).rglob('*') if path.is_file() and path.suffix not in ('.py', '.pyc')))"
    )
    ran = subprocess.run(
        [kraftwatch.with_name("python"), "-c", look], cwd=kraftwatch.parent, capture_output=True, text=True, check=True
    )
    where, shipped = ran.stdout.splitlines()
    tracked = subprocess.run(
        ["git", "ls-files", "connectors", "deploy", "rules", "streaming"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    recipes = tuple(each.removesuffix("*") for each in wheel["exclude"])

    assert where.count("site-packages") == 1
    assert str(kraftwatch.parents[1]) in where
    data = {name for name in tracked if not name.endswith(".py") and not name.startswith(recipes)}
    assert data <= set(shipped.split())
    assert not [name for name in shipped.split() if name.startswith(recipes)]


def test_what_runs_in_production_is_locked_with_the_versions_that_are_tested() -> None:
    runs, tested = locked(ROOT / "deploy" / "requirements.txt"), locked(ROOT / "requirements.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    named = {re.split(r"[<>=\[;, ]", each)[0].lower().replace("_", "-") for each in project}

    assert runs.items() <= tested.items(), "make lock writes both"
    assert named <= {name.split("==")[0] for name in runs}
    assert not {name for name in runs if name.startswith(("pytest", "mypy==", "ruff==", "mkdocs"))}
    assert "://" not in (ROOT / "deploy" / "requirements.txt").read_text()


def locked(file: Path) -> dict[str, frozenset[str]]:
    """The hashes of each NAME==VERSION in a lock; on which platforms it is wanted may differ."""
    found: dict[str, set[str]] = {}
    hashes: set[str] = set()
    for line in file.read_text().splitlines():
        if pinned := re.match(r"[a-z0-9][^\s\\]*==[^\s\\]+", line):
            hashes = found.setdefault(pinned[0], set())
        elif digest := re.search(r"--hash=(sha256:\w+)", line):
            hashes.add(digest[1])
    return {name: frozenset(hashes) for name, hashes in found.items()}
