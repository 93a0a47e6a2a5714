"""The wheel, and environments that share only the libraries of the checkout's environment."""

import io
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def build_wheel(folder: Path, source: Path = ROOT) -> Path:
    """Builds the wheel of this checkout, or of another source, in a folder and returns it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment_with_libraries(folder: Path) -> Path:
    """Returns the bin folder of an environment, new at the first call, with the libraries and without kraftwatch."""
    if not folder.exists():
        subprocess.run([_uv(), "venv", "--quiet", "--python", sys.executable, folder], check=True)
        # Python reads no .pth files in a folder that a .pth file adds, so the checkout's editable install is inactive.
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def install_wheel(folder: Path) -> Path:
    """Builds the wheel, installs it in `folder` and returns the bin folder of the new environment."""
    programs = environment_with_libraries(folder / "environment")
    _install(programs, str(build_wheel(folder)))
    return programs


def install_commit(commit: str, folder: Path) -> Path | None:
    """As `install_wheel`, of another commit, with its own locked libraries; None if the clone lacks that commit."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if archive.returncode != 0:
        return None
    source = folder / "source"
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as content:
        content.extractall(source, filter="data")
    programs = environment_with_libraries(folder / "environment")
    same = {*_locked(ROOT)}
    _install(programs, str(build_wheel(folder, source)), *(pin for pin in _locked(source) if pin not in same))
    return programs


def _locked(source: Path) -> list[str]:
    lines = (source / "deploy" / "requirements.txt").read_text().splitlines()
    return [line.removesuffix(" \\") for line in lines if "==" in line and not line.startswith(" ")]


def _install(programs: Path, *packages: str) -> None:
    options = ["--quiet", "--no-deps", "--compile-bytecode", "--python", str(programs / "python")]
    subprocess.run([_uv(), "pip", "install", *options, *packages], check=True)


def install_base(folder: Path) -> Path:
    """Installs the wheel and, from the registry, the locked packages of its base in a new environment; returns its bin
    folder."""
    wheel, environment = build_wheel(folder), folder / "environment"
    subprocess.run([_uv(), "venv", "--quiet", "--python", sys.executable, environment], check=True)
    options = ["--quiet", "--compile-bytecode", "--python", str(environment), "--constraint", "requirements.lock"]
    subprocess.run([_uv(), "pip", "install", *options, wheel], cwd=ROOT, check=True)
    return environment / "bin"


def _uv() -> Path:
    return Path(sysconfig.get_path("scripts")) / "uv"
