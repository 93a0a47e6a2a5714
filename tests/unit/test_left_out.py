"""What a run says of tests that it left out for want of a Debian package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = """
import pytest

@pytest.mark.debian("prometheus", "chromium")
def test_one(): ...

@pytest.mark.debian("prometheus")
def test_another(): ...

def test_a_third(): ...
"""


def run(folder: Path, path: str) -> str:
    (folder / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-p"]
    command += ["no:cacheprovider", "--rootdir", str(folder), "test_cases.py"]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_without_the_package_its_tests_are_left_out_and_the_end_says_how_to_get_it(tmp_path: Path) -> None:
    said = run(tmp_path, "")

    assert "1 passed, 2 skipped" in said
    assert "2 tests were left out, because they need Debian's chromium, prometheus: " in said
    assert "apt-get install --no-install-recommends chromium prometheus\n" in said


def test_with_the_package_all_run_and_nothing_is_said(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("promtool", "chromium"):
        (programs / name).touch(mode=0o755)

    said = run(tmp_path, str(programs))

    assert "3 passed" in said
    assert "left out" not in said


@pytest.mark.parametrize("package", ["chromium", "chromium-driver", "prometheus", "prometheus-alertmanager"])
def test_ci_installs_each_package(package: str) -> None:
    assert package in (ROOT / ".ci" / "run").read_text().split("packages=(")[1].split(")")[0].split()
