"""Tests that need a missing Debian package are skipped, and the end of the run names the package."""

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


def run_cases(folder: Path, path: str) -> str:
    """Returns the output of a run of CASES with this PATH."""
    (folder / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml"), "-p"]
    command += ["no:cacheprovider", "--rootdir", str(folder), "test_cases.py"]
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_missing_package_skips_its_tests_and_prints_how_to_install_it(tmp_path: Path) -> None:
    output = run_cases(tmp_path, "")

    assert "1 passed, 2 skipped" in output
    assert "2 tests were skipped, because they need the Debian packages chromium, prometheus: " in output
    assert "apt-get install --no-install-recommends chromium prometheus\n" in output


def test_installed_packages_skip_no_tests(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("promtool", "chromium"):
        (programs / name).touch(mode=0o755)

    output = run_cases(tmp_path, str(programs))

    assert "3 passed" in output
    assert "tests were skipped" not in output


@pytest.mark.parametrize("package", ["chromium", "chromium-driver", "prometheus", "prometheus-alertmanager"])
def test_ci_installs_each_package(package: str) -> None:
    assert package in (ROOT / ".ci" / "run").read_text().split("packages=(")[1].split(")")[0].split()
