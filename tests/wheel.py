"""The wheel in an environment of its own, which has of the checkout's environment only the libraries."""

import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[1]


def installed(folder: Path) -> Path:
    """Build the wheel, install it in `folder`; the bin folder of the new environment."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    environment = folder / "environment"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run([uv, "pip", "install", "--quiet", "--no-deps", "--python", python, wheel], check=True)
    # A folder that a .pth file names is no site folder: the checkout's own editable install in it counts for nothing.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python.parent
