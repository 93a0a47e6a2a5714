"""The wheel, and environments that share only the libraries of the checkout's environment."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]


def build_wheel(folder: Path) -> Path:
    """Builds the wheel in a folder and returns it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
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
    wheel, programs = build_wheel(folder), environment_with_libraries(folder / "environment")
    options = ["--quiet", "--no-deps", "--python", str(programs / "python")]
    subprocess.run([_uv(), "pip", "install", *options, wheel], check=True)
    return programs


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
