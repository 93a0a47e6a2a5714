"""The wheel: it contains every file that the program reads."""

import lzma
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.wheel import ROOT, install_wheel

DATA = ROOT / "tests" / "data" / "metadata"


@pytest.fixture(scope="module")
def kraftwatch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the command in a new environment with the wheel."""
    return install_wheel(tmp_path_factory.mktemp("wheel")) / "kraftwatch"


def output_of(kraftwatch: Path, *arguments: str | Path) -> str:
    ran = subprocess.run(
        [kraftwatch, *arguments], cwd=kraftwatch.parent, capture_output=True, text=True, check=False, timeout=180
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_program_runs_from_the_wheel_with_its_data_files(kraftwatch: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "00000000000000000007-0000000001.checkpoint"
    checkpoint.write_bytes(lzma.decompress((DATA / "tiny.checkpoint.xz").read_bytes()))

    assert "kraftwatch" in output_of(kraftwatch, "--help")
    assert "What to do" in output_of(kraftwatch, "explain", "no-leader")
    assert "failure tolerance" in output_of(kraftwatch, "explain", "glossary")
    assert "SnapshotFooter" in output_of(kraftwatch, "data", "decode", checkpoint)


def test_migrations_in_the_wheel_create_the_tables_of_a_job(kraftwatch: Path, tmp_path: Path) -> None:
    create = (
        "import pathlib, sys; from connectors.store.tables import job_database;"
        "job_database(pathlib.Path(sys.argv[1])).create()"
    )
    subprocess.run([kraftwatch.with_name("python"), "-c", create, tmp_path], cwd=tmp_path, check=True)
    assert output_of(kraftwatch, "silence", "list", "--json", "--checkpoint", tmp_path) == ""


def test_wheel_has_the_packages_with_their_data_and_nothing_that_the_program_does_not_read(kraftwatch: Path) -> None:
    script = (
        "import connectors, deploy, rules, streaming; from importlib.resources import files;"
        "print({str(files(each).parent) for each in (connectors, deploy, rules, streaming)});"
        "print(*sorted(str(path.relative_to(files('streaming').parent)) for each in (connectors, deploy, rules,"
        " streaming) for path in files(each).rglob('*') if path.is_file() and path.suffix != '.pyc'))"
    )
    ran = subprocess.run(
        [kraftwatch.with_name("python"), "-c", script],
        cwd=kraftwatch.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    where, shipped = ran.stdout.splitlines()
    tracked = subprocess.run(
        ["git", "ls-files", "connectors", "deploy", "rules", "streaming"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = tuple(each.removesuffix("*") for each in wheel["exclude"])

    assert where.count("site-packages") == 1
    assert str(kraftwatch.parents[1]) in where
    assert {name for name in tracked if not name.startswith(left_out)} <= set(shipped.split())
    assert not [name for name in shipped.split() if name.startswith(left_out)]
    assert "deploy/schemas/new_kafka.py" not in shipped.split()
